//! What every gRPC service here shares.
//!
//! A service registers itself with a [`ServerBuilder`] and is then reached through a [`Link`]:
//! in the same process without a socket, or over TCP or a Unix socket. Everything that must hold
//! for a call (who the caller is, until when an answer is wanted, that a panic does not break the
//! process) is put around the service itself, so that it holds on every kind of link.
//!
//! | module | gives |
//! |---|---|
//! | [`error`] | [`ErrorKind`] in one table to gRPC codes, [`RpcError`] with its details, both ways |
//! | [`link`] | [`Link`]: one transport for the generated clients, local or remote |
//! | [`forward`] | [`Forward`]: a service of another process, offered here |
//! | [`address`] | [`Address`]: where a link leads and where a listener waits |
//! | [`server`] | [`ServerBuilder`], [`Server`], [`serve`]: health, reflection, limits |
//! | [`mod@principal`] | [`Namespace`], [`Principal`], [`Authenticate`]: who calls |
//! | [`token`] | [`Token`], [`RequireToken`]: the bearer token of a TCP listener |
//! | [`id`] | checks of ids and texts from clients |
//! | [`mod@deadline`] | [`Deadline`] of a call, [`Deadlines`] that a link adds |
//! | [`clock`] | [`Clock`], [`SystemClock`], [`ManualClock`], [`Monotonic`], [`BootClock`]: time as a parameter |
//! | [`text`] | escaping of untrusted text |
//! | [`ShortPath`] | a name of a Unix socket that is short enough for the system |
//! | [`Unsent`] | the part of a message that a connection has not taken |
//! | [`SingleFlight`] | work that many wait for, done once |
//! | [`trace`] | [`TraceParent`]: the trace that a call belongs to; spans under it |
//! | [`metrics`] | names of the metrics, labels that stay few |

pub mod address;
pub mod clock;
pub mod deadline;
pub mod error;
mod flight;
pub mod forward;
mod guard;
pub mod id;
pub mod link;
pub mod metrics;
pub mod principal;
pub mod server;
mod short;
pub mod text;
pub mod token;
pub mod trace;
mod unsent;

pub use address::{Address, AddressError};
pub use clock::{BootClock, Clock, ManualClock, Monotonic, SystemClock};
pub use deadline::{Deadline, Deadlines, deadline};
pub use error::{ErrorKind, FieldViolation, RpcError, STAYS_REFUSED};
pub use flight::SingleFlight;
pub use forward::Forward;
pub use id::{check_id, check_request_id, check_required_text, check_session_id, check_text};
pub use link::{FindToken, Link, Member, RemoteOptions};
pub use principal::{
    AllowAnonymous, Authenticate, Authentication, NAMESPACE_HEADER, Namespace, PRINCIPAL_HEADER,
    Principal, principal, with_principal,
};
pub use server::{
    BuildError, Exposure, Health, Listener, MAX_MESSAGE_BYTES, Peer, ServeError, Server,
    ServerBuilder, serve,
};
pub use short::ShortPath;
pub use token::{RequireToken, TOKEN_RULE, Token, TokenError};
pub use trace::{TRACE_HEADER, TraceParent};
pub use unsent::Unsent;
