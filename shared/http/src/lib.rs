//! The one place where HTTP clients are built, for models and tools alike.
//!
//! Every client has the same guards: limits on connecting, on silence, on the whole exchange and
//! on the size of an answer; no redirect is followed; only proxies that the caller names are used; no
//! error shows a URL's query or a header.
//!
//! - [`config`]: what a client may do, and for how long.
//! - [`client`]: building a client, sending, reading an answer up to its limit.
//! - [`error`]: what can go wrong.
//! - [`proxy`]: the proxies that the usual variables name.
//! - `test_server` (feature `test-server`): a scripted server that tests speak to.

pub mod client;
pub mod config;
pub mod error;
pub mod proxy;
#[cfg(feature = "test-server")]
pub mod test_server;

pub use client::{HttpClient, HttpResponse, build_client, install_crypto_provider, is_loopback};
pub use config::HttpConfig;
pub use error::HttpError;
pub use proxy::{NamedProxy, Proxies, ProxyEffect, ProxyTunnel};
pub use reqwest::{
    Client as RawClient, Error as RawError, RequestBuilder, Response as RawResponse, Url,
};
