"""Objects that come in parts, on the real store."""

from datetime import timedelta

import pytest

from pipeline.adapters.multipart_uploads import S3MultipartUploads
from pipeline.adapters.objects import S3Objects
from pipeline.domain.errors import Rejected

PART = b"0" * 5 * 1024**2


def test_parts_become_one_object_in_their_order(objects):
    uploads = S3MultipartUploads(objects)
    begun = uploads.begin("uploads/1")
    last = uploads.put("uploads/1", begun, 2, b"the end")
    uploads.put("uploads/1", begun, 1, b"1" * len(PART))
    first = uploads.put("uploads/1", begun, 1, PART)
    assert S3Objects(objects).size("uploads/1") is None
    uploads.finish("uploads/1", begun, [first, last])
    with S3Objects(objects).get("uploads/1") as pieces:
        assert b"".join(pieces) == PART + b"the end"


def test_an_upload_that_is_aborted_or_old_is_gone(objects):
    uploads = S3MultipartUploads(objects)
    aborted, old = uploads.begin("uploads/1"), uploads.begin("uploads/2")
    uploads.abort("uploads/1", aborted)
    uploads.abort_older("uploads/", timedelta(days=1))
    part = uploads.put("uploads/2", old, 1, PART)
    uploads.abort_older("uploads/", timedelta(0))
    with pytest.raises(Rejected):
        uploads.finish("uploads/2", old, [part])
    assert S3Objects(objects).size("uploads/2") is None
