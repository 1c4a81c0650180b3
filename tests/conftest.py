"""Programs that tests start heed signals, even where the tests run under ``nohup`` or in the background of a script."""

import signal

for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)  # what they start inherits what is ignored
