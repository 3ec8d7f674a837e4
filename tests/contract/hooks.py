"""What a run against the description does otherwise than it would by itself."""

import itertools
import re

import schemathesis

# How long a message waits for its reply at most, in seconds.
LONGEST_WAIT = 1
KEY = "Idempotency-Key"

numbers = itertools.count(1)


@schemathesis.hook
def before_call(context, case, kwargs):
    """What is refused stays as it is, in a message and in a key."""
    # A message may wait minutes for its reply, and none comes while its team is paused, which a run does
    # too: it would wait for longer than a request may take here.
    body = case.body
    wait = body.get("wait_s") if isinstance(body, dict) else None
    if type(wait) is int and LONGEST_WAIT < wait <= 300:
        case.body = {**body, "wait_s": LONGEST_WAIT}
    # Most requests come with one and the same key: all but the first would be conflicts, and what else they
    # say would not be looked at.
    if re.fullmatch("[!-~]{1,128}", str(case.headers.get(KEY, ""))):
        case.headers[KEY] = f"run-{next(numbers)}"
