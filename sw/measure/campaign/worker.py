"""A worker process: `python -m sw.measure.campaign.worker`.

Reads a task a line from standard input (JSON), answers each with lines on standard output:
`{"partial": outcome}` perhaps, then `{"outcome": outcome}`. It ends with its input, and with the
process that started it (see sw/runtime/simulator/guard.py).
"""

import json
import os
import sys

from sw.measure.campaign.measure import Bench, carry_out
from sw.measure.campaign.task import Outcome, Task


def main() -> int:
    # What libraries print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(kind: str, outcome: Outcome) -> None:
        answers.write(json.dumps({kind: outcome.to_json()}) + "\n")
        answers.flush()

    bench = Bench(lambda outcome: tell("partial", outcome))
    for line in sys.stdin:
        tell("outcome", carry_out(Task.from_json(json.loads(line)), bench))
    bench.drop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
