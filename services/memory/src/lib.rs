//! The memory service: journals, leases, session memory, blobs.
