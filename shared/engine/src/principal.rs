//! Who asks and decides.

use serde::{Deserialize, Serialize};

/// A caller as the server that took the call established it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Names the caller within its way of authentication, such as `uid:1000`.
    pub subject: String,
    /// The namespace that it acted in.
    pub namespace: String,
    /// How the server established the subject.
    pub authentication: Authentication,
}

/// How a server established who calls; see `cairn/event/v1/event.proto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Authentication {
    /// The caller runs in the server's process.
    Process,
    /// The operating system named the user at the other end of a Unix socket.
    Socket,
    /// The call carried the token of the listener.
    Token,
    /// The listener admits callers without a credential.
    Anonymous,
    /// One of Cairn's services acted by itself.
    Service,
}
