"""Certificates as files: what was promised about a loop, and of which loop. Nothing here needs numpy."""

from judges.certificate.issued import IssuedCertificate
from judges.certificate.row import CertifiedRow
from judges.certificate.subject import Subject

__all__ = ["CertifiedRow", "IssuedCertificate", "Subject"]
