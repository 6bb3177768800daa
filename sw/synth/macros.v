// SPDX-License-Identifier: Apache-2.0
// The memory wrapper as an empty box: a memory compiler's macro takes its place.
(* blackbox *)
module systola_sram #(
    parameter DEPTH = 16,
    parameter WIDTH = 32,
    parameter GRANULARITY = 32
) (
    input                         clk,
    input                         r_en,
    input  [$clog2(DEPTH)-1:0]    r_addr,
    output [WIDTH-1:0]            r_data,
    input  [WIDTH/GRANULARITY-1:0] w_en,
    input  [$clog2(DEPTH)-1:0]    w_addr,
    input  [WIDTH-1:0]            w_data
);
endmodule
