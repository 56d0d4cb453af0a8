"""The routes under `/v1`, a module for each subject. They ask the desk, and answer in the rows of the command line."""

from web.routes import access, events, letters, service, tasks

ROUTES = (*tasks.ROUTES, *events.ROUTES, *letters.ROUTES, *service.ROUTES, *access.ROUTES)
