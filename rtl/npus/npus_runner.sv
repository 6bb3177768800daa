// SPDX-License-Identifier: Apache-2.0
// Runs the program of one NPU again and again, a sample each time, without the host.
//
// Before a run it takes one from each semaphore of its NPU that WAIT names. It writes the addresses
// of this run's input and output regions (BASE1, BASE2), starts the NPU and waits for its interrupt.
// After DONE it rings up to two doorbells. A fault of the NPU, or a doorbell that is not there, ends
// it with an error.
module npus_runner #(
    parameter int RING = 12  // bits of a doorbell's address
) (
    input  logic            clk,
    input  logic            rst,
    // Settings: 16 registers, see docs/npus.md.
    input  logic            set,
    input  logic [3:0]      index,
    input  logic [31:0]     value,
    output logic [31:0]     shown,
    input  logic            go,
    input  logic            stop,
    output logic            active,
    output logic            failed,
    // Semaphores of this NPU.
    output logic [3:0]      take,
    input  logic            taken,
    // Doorbells: held until `rung`.
    output logic            ring,
    output logic [RING-1:0] ring_addr,
    input  logic            rung,
    input  logic            ring_bad,
    // Registers of the NPU.
    output logic            access,
    output logic            access_write,
    output logic [11:0]     access_addr,
    output logic [31:0]     access_data,
    input  logic            access_ack,
    input  logic [31:0]     access_value,
    input  logic            irq
);
  typedef enum logic [3:0] {
    REST, TAKE, INPUT_LO, INPUT_HI, OUTPUT_LO, OUTPUT_HI, START, RUN, STATUS, CLEAR, RING0, RING1, NEXT
  } state_t;
  typedef enum logic [3:0] {
    RUNS, IN_LO, IN_HI, IN_STRIDE, IN_BUFFERS, OUT_LO, OUT_HI, OUT_STRIDE, OUT_BUFFERS, WAIT,
    BELL0, BELL1, COMPLETED, BUSY, WAITED, ERROR
  } register_t;
  localparam logic [31:0] DONE = 32'd2;  // STATUS of an NPU whose run has ended well
  localparam logic [31:0] FAULT = 32'd1, BAD_BELL = 32'd2;

  // A walk through `buffers` places `stride` bytes apart; 0: it never returns.
  typedef struct packed {
    logic [63:0] addr;
    logic [31:0] left;  // until the first place again
  } walk_t;

  state_t      state;
  logic [31:0] runs, in_stride, in_buffers, out_stride, out_buffers;
  logic [63:0] in_base, out_base;
  logic [3:0]  waits;
  logic [1:0]  bells;  // which are rung
  logic [RING-1:0] bell[2];
  logic [31:0] completed, busy, waited, error;
  walk_t       in, out;

  function automatic walk_t step(walk_t at, logic [63:0] base, logic [31:0] stride,
                                 logic [31:0] buffers);
    step.addr = at.addr + 64'(stride);
    step.left = at.left - 1;
    if (at.left == 1) begin
      step.addr = base;
      step.left = buffers;
    end
  endfunction

  assign active = state != REST;
  assign failed = error != 0;
  assign take   = state == TAKE ? waits : '0;
  assign ring   = (state == RING0 && bells[0]) || (state == RING1 && bells[1]);
  assign ring_addr = bell[state == RING1];

  always_comb begin
    access       = 1'b1;
    access_write = 1'b1;
    access_addr  = '0;
    access_data  = '0;
    case (state)
      INPUT_LO:  {access_addr, access_data} = {12'h088, in.addr[31:0]};
      INPUT_HI:  {access_addr, access_data} = {12'h08c, in.addr[63:32]};
      OUTPUT_LO: {access_addr, access_data} = {12'h090, out.addr[31:0]};
      OUTPUT_HI: {access_addr, access_data} = {12'h094, out.addr[63:32]};
      START:     {access_addr, access_data} = {12'h018, 32'd1};
      STATUS:    {access_addr, access_write} = {12'h01c, 1'b0};
      CLEAR:     {access_addr, access_data} = {12'h024, 32'd1};
      default:   access = 1'b0;
    endcase
  end

  always_ff @(posedge clk)
    if (rst) begin
      state <= REST;
      error <= '0;
      {runs, in_base, in_stride, in_buffers, out_base, out_stride, out_buffers} <= '0;
      {waits, bells, bell[0], bell[1], completed, busy, waited, in, out} <= '0;
    end else begin
      busy   <= busy + 32'(state == RUN);
      waited <= waited + 32'(state == TAKE);
      case (state)
        REST: begin
          if (set)
            case (register_t'(index))
              RUNS:        runs <= value;
              IN_LO:       in_base[31:0] <= value;
              IN_HI:       in_base[63:32] <= value;
              IN_STRIDE:   in_stride <= value;
              IN_BUFFERS:  in_buffers <= value;
              OUT_LO:      out_base[31:0] <= value;
              OUT_HI:      out_base[63:32] <= value;
              OUT_STRIDE:  out_stride <= value;
              OUT_BUFFERS: out_buffers <= value;
              WAIT:        waits <= value[3:0];
              BELL0:       {bells[0], bell[0]} <= {value[31], value[RING-1:0]};
              BELL1:       {bells[1], bell[1]} <= {value[31], value[RING-1:0]};
              default:     ;
            endcase
          if (go) begin
            {completed, busy, waited, error} <= '0;
            in    <= '{addr: in_base, left: in_buffers};
            out   <= '{addr: out_base, left: out_buffers};
            state <= runs == 0 ? REST : TAKE;
          end
        end
        TAKE:      if (taken || waits == 0) state <= INPUT_LO;
        INPUT_LO:  if (access_ack) state <= INPUT_HI;
        INPUT_HI:  if (access_ack) state <= OUTPUT_LO;
        OUTPUT_LO: if (access_ack) state <= OUTPUT_HI;
        OUTPUT_HI: if (access_ack) state <= START;
        START:     if (access_ack) state <= RUN;
        RUN:       if (irq) state <= STATUS;
        STATUS:
        if (access_ack) begin
          error <= access_value == DONE ? '0 : FAULT;
          state <= access_value == DONE ? CLEAR : REST;
        end
        CLEAR:     if (access_ack) state <= RING0;
        RING0, RING1:
        if (!ring || rung) begin
          state <= state == RING0 ? RING1 : NEXT;
          if (ring && ring_bad) begin
            error <= BAD_BELL;
            state <= REST;
          end
        end
        NEXT: begin
          completed <= completed + 1;
          in        <= step(in, in_base, in_stride, in_buffers);
          out       <= step(out, out_base, out_stride, out_buffers);
          state     <= completed + 1 == runs ? REST : TAKE;
        end
        default: state <= REST;
      endcase
      // An access under way is finished first.
      if (stop && (!access || access_ack)) state <= REST;
    end

  always_comb
    case (register_t'(index))
      RUNS:        shown = runs;
      IN_LO:       shown = in_base[31:0];
      IN_HI:       shown = in_base[63:32];
      IN_STRIDE:   shown = in_stride;
      IN_BUFFERS:  shown = in_buffers;
      OUT_LO:      shown = out_base[31:0];
      OUT_HI:      shown = out_base[63:32];
      OUT_STRIDE:  shown = out_stride;
      OUT_BUFFERS: shown = out_buffers;
      WAIT:        shown = 32'(waits);
      BELL0:       shown = {bells[0], 31'(bell[0])};
      BELL1:       shown = {bells[1], 31'(bell[1])};
      COMPLETED:   shown = completed;
      BUSY:        shown = busy;
      WAITED:      shown = waited;
      ERROR:       shown = error;
    endcase
endmodule
