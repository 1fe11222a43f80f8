"""How a process tells its group that all processes of the application are to end.

It joins the group once more, under a client id with an end that no thread's has:

    orders-0b2e-StreamThread-1-ShutdownApplication

Everybody who describes the group sees it for as long as that member is there. It is a dynamic
member: one that was killed is gone when its session has ended.
"""

from __future__ import annotations

from pystreams.runtime.cluster.group_description import GroupMember

_MARK = "-ShutdownApplication"


def asking_client_id(thread: str) -> str:
    """Return the client id that asks the group to end, for a thread."""
    return f"{thread}{_MARK}"


def asks_to_shut_down(member: GroupMember) -> bool:
    """Return whether a member is there to ask the others to end."""
    return member.client_id.endswith(_MARK)


def told_to_end(asking: GroupMember) -> str:
    """Return the error of a process that ends because this member asks it to."""
    return (
        f"the application was shut down by another process, as its uncaught exception handler "
        f"said (SHUTDOWN_APPLICATION): {asking.client_id} on {asking.host}, whose log has the "
        "cause. Everything processed here is committed: start again when the cause is gone"
    )
