"""Hook for the app of PHP-FPM pools (fpm), which depends on this app: pools that are created where sites move."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.deployments.models import Deployment
from panel.deployments.plan import PlanPool
from panel.hosts.models import Host, WebServer
from panel.websites.models import Site


class PoolMoves(Protocol):
    """Plan pools on a new host, record them in the database, and create and remove them on the host."""

    def plan(self, actor: User, sites: Mapping[Site, Host], server: WebServer, version: str) -> list[PlanPool]:
        """Return the pools that a move of `sites` (each with its old host) to `server` creates. `version`: PHP version
        of the new pools, "" for the version of the old ones. Raises ApplicationError or ValidationError if the new host
        cannot have a pool.
        """

    def confirm(self, actor: User | None, deployment: Deployment) -> None:
        """Reserve the pools of a confirmed plan in the database. Raises Conflict or ValidationError if a pool changed
        or became impossible after the plan was made.
        """

    def begin(self, deployment: Deployment) -> None:
        """Record that from now on the host may have the pools."""

    def create(self, host: Host, pool: PlanPool) -> None:
        """Create the pool on the host, or do nothing if the host has it. Makes no database query. Raises
        ApplicationError.
        """

    def remove(self, host: Host, pool: PlanPool) -> None:
        """Remove the pool from the host. Makes no database query. Raises ApplicationError."""

    def settle(self, deployment: Deployment, *, is_live: bool, left: Collection[str]) -> None:
        """Record the end of a deployment. `is_live`: it succeeded. `left`: names of pools that the host may still have
        although it failed.
        """


handlers: list[PoolMoves] = []


def pools_plan(actor: User, sites: Mapping[Site, Host], server: WebServer, version: str = "") -> list[PlanPool]:
    """Return the pools that a move to another host creates there, see `PoolMoves.plan`."""
    return [pool for handler in handlers if sites for pool in handler.plan(actor, sites, server, version)]


def pools_confirm(actor: User | None, deployments: Sequence[Deployment]) -> None:
    """Reserve the pools of confirmed plans, see `PoolMoves.confirm`. Raises PermissionDenied if they create pools and
    the actor is not an administrator.
    """
    for deployment in deployments:
        if deployment.plan.pools:
            if actor is not None and deployment.plan.new_pools:
                require(actor, Action.ADMINISTER)
            for handler in handlers:
                handler.confirm(actor, deployment)


def pools_begin(deployments: Iterable[Deployment]) -> None:
    for deployment in deployments:
        for handler in handlers if deployment.plan.new_pools else ():
            handler.begin(deployment)


def pools_settle(deployment: Deployment, *, is_live: bool, left: Collection[str] = ()) -> None:
    for handler in handlers if deployment.plan.new_pools else ():
        handler.settle(deployment, is_live=is_live, left=left)
