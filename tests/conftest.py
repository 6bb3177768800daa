"""What every test can rely on."""

import signal

# A background job of a shell starts with SIGINT ignored, and so would every process that a test
# starts and then interrupts. A handler of our own becomes the default again when they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
