"""What a tenant's webhooks are signed with: receivers need the secrets."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Body, Path, Response

from pipeline.api import schemas
from pipeline.api.callers import Actor
from pipeline.api.documentation import problems
from pipeline.api.problems import not_found
from pipeline.api.schemas import NewWebhookKey, WebhookKey, WebhookKeyList
from pipeline.api.service import Served

router = APIRouter(tags=["webhooks"], responses=problems(401, 403, 422, 429, 503))
KeyId = Annotated[str, Path(pattern=r"^[0-9a-f]{8}$")]
_NEXT = NewWebhookKey()


@router.get("/v1/webhook-keys")
def webhook_keys(service: Served, caller: Actor) -> WebhookKeyList:
    """List the keys that webhooks are signed with now, newest first, with their secrets."""
    found = service.webhook_keys_of(caller).all(caller.tenant)
    return WebhookKeyList(keys=[schemas.webhook_key(status) for status in reversed(found) if status.is_live])


@router.post("/v1/webhook-keys", status_code=201)
def rotate(service: Served, caller: Actor, wanted: Annotated[NewWebhookKey, Body()] = _NEXT) -> WebhookKey:
    """Make a key, the first or the next; those before it go on signing beside it for a while."""
    keys = service.webhook_keys_of(caller)
    return schemas.webhook_key(keys.rotate(caller.tenant, overlap=timedelta(hours=wanted.overlap_hours)))


@router.delete("/v1/webhook-keys/{key_id}", status_code=204, responses=problems(404))
def revoke(service: Served, caller: Actor, key_id: KeyId) -> Response:
    """Sign nothing more with a key. A tenant without any gets a new one with its next webhook."""
    if not service.webhook_keys_of(caller).revoke([key_id], tenant=caller.tenant):
        raise not_found()
    return Response(status_code=204)
