from django.apps import AppConfig


class FpmConfig(AppConfig):
    name = "panel.fpm"
    label = "fpm"

    def ready(self) -> None:
        from panel.deployments import pool_moves
        from panel.fpm.execution import pool_job
        from panel.fpm.guards import deletion_guard, move_guard
        from panel.fpm.moving import PoolMover
        from panel.fpm.observing import host_observed
        from panel.fpm.selectors import job_params, pools_edited, sockets_of_teams
        from panel.hosts.edited_files import SOURCES
        from panel.hosts.execution import HANDLERS
        from panel.hosts.jobs import OBSERVERS
        from panel.hosts.models import HostJobKind
        from panel.hosts.services.jobs import PARAMS
        from panel.websites import web_server_specs
        from panel.websites.services.base import deletion_guards, move_guards

        HANDLERS[HostJobKind.FPM_POOL] = pool_job
        PARAMS[HostJobKind.FPM_POOL] = job_params
        if host_observed not in OBSERVERS:
            OBSERVERS.append(host_observed)
        if deletion_guard not in deletion_guards:
            deletion_guards.append(deletion_guard)
        if move_guard not in move_guards:
            move_guards.append(move_guard)
        if pools_edited not in SOURCES:
            SOURCES.append(pools_edited)
        if not pool_moves.handlers:
            pool_moves.handlers.append(PoolMover())
        if sockets_of_teams not in web_server_specs.team_sockets:
            web_server_specs.team_sockets.append(sockets_of_teams)
