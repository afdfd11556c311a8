//! A service of a user as a hook.

use crate::{Asked, Hook, HookError};
use async_trait::async_trait;
use cairn_engine::hooks::{MAX_ANSWER, Verdict};
use cairn_proto::hook::AskRequest;
use cairn_proto::hook::hook_host_service_client::HookHostServiceClient;
use cairn_rpc::{Address, ErrorKind, Link, RemoteOptions, RpcError};
use prost::Message as _;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;
use tokio::time::Instant;
use tonic::transport::{ClientTlsConfig, Endpoint};
use tonic::{Request, Status};

/// Most bytes of a question: what a gRPC server takes without settings of its own.
const MAX_QUESTION: usize = 4 << 20;
/// How much longer than the answer is waited for the service has.
const GRACE: Duration = Duration::from_secs(1);
/// The longest time for a connection. It is at most half of the timeout of an answer: a host that cannot be reached
/// fails before one that does not answer.
const CONNECT: Duration = Duration::from_secs(5);
/// Most connections that are kept for later questions.
const MOST_LINKS: usize = 256;
/// An error about the time that comes this long before its end comes from that end.
const MARGIN: Duration = Duration::from_millis(50);

/// The address of a service: `http://host:port`, `https://host:port` or `unix:/path/to/socket`. Without a port it is 80
/// or 443.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostUrl(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Plain(Address),
    /// `https://host:port`.
    Tls(String),
}

/// A text that is no address of a service.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "\"{0}\" is not an address; allowed: http://host:port, https://host:port or unix:/path/to/socket"
)]
pub struct HostUrlError(String);

impl FromStr for HostUrl {
    type Err = HostUrlError;

    fn from_str(text: &str) -> Result<Self, HostUrlError> {
        let error = || HostUrlError(cairn_rpc::text::clip(text, 256));
        let address = |rest: &str, port: u16| {
            let rest = rest.strip_suffix('/').unwrap_or(rest);
            let with_port = || format!("http://{rest}:{port}").parse::<Address>();
            let address = format!("http://{rest}").parse().or_else(|_| with_port());
            address.map_err(|_| error())
        };
        let place = if let Some(rest) = text.strip_prefix("https://") {
            let address = address(rest, 443)?;
            let authority = address.host_and_port().ok_or_else(error)?;
            Place::Tls(format!("https://{authority}"))
        } else if let Some(rest) = text.strip_prefix("http://") {
            Place::Plain(address(rest, 80)?)
        } else {
            Place::Plain(text.parse().map_err(|_| error())?)
        };
        Ok(Self(place))
    }
}

impl fmt::Display for HostUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Plain(address) => address.fmt(f),
            Place::Tls(url) => f.write_str(url),
        }
    }
}

impl HostUrl {
    fn link(&self, timeout: Duration) -> Result<Link, tonic::transport::Error> {
        let options = RemoteOptions {
            connect_timeout: CONNECT.min(timeout / 2),
            ..RemoteOptions::foreign()
        };
        match &self.0 {
            Place::Plain(address) => Ok(Link::remote_with(address, &options)),
            Place::Tls(url) => {
                let tls = ClientTlsConfig::new().with_native_roots();
                let endpoint = Endpoint::from_shared(url.clone())?.tls_config(tls)?;
                Ok(Link::to_endpoint(endpoint, &options))
            }
        }
    }
}

/// Connections to services, by address and timeout. Those that were used last are kept.
#[derive(Debug, Default)]
pub(crate) struct Links {
    links: BTreeMap<(String, Duration), (u64, Link)>,
    uses: u64,
}

impl Links {
    /// The connection to an address, which is made with the first call.
    ///
    /// # Errors
    /// The text is no address, or TLS cannot be used here.
    pub(crate) fn get(&mut self, url: &str, timeout: Duration) -> Result<Link, String> {
        self.uses += 1;
        let key = (url.to_owned(), timeout);
        if let Some((used, link)) = self.links.get_mut(&key) {
            *used = self.uses;
            return Ok(link.clone());
        }
        let address: HostUrl = url
            .parse()
            .map_err(|error: HostUrlError| error.to_string())?;
        let link = address.link(timeout).map_err(|error| error.to_string())?;
        if self.links.len() >= MOST_LINKS {
            let oldest = self.links.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(key) = oldest.map(|(key, _)| key.clone()) {
                self.links.remove(&key);
            }
        }
        self.links.insert(key, (self.uses, link.clone()));
        Ok(link)
    }
}

/// A service.
#[derive(Debug)]
pub(crate) struct Host {
    /// Why the service cannot be called, in words, if it cannot.
    pub(crate) link: Result<Link, String>,
    /// How long one answer may take.
    pub(crate) timeout: Duration,
}

#[async_trait]
impl Hook for Host {
    async fn ask(&self, asked: &Asked) -> Result<Verdict, HookError> {
        let link = self.link.clone().map_err(HookError::Wrong)?;
        let mut client = HookHostServiceClient::new(link).max_decoding_message_size(MAX_ANSWER);
        let question = AskRequest {
            key: asked.key.clone(),
            hook: asked.hook.clone(),
            namespace: asked.namespace.clone(),
            session: asked.session.clone(),
            ..AskRequest::from(asked.question.clone())
        };
        let bytes = question.encoded_len();
        if bytes > MAX_QUESTION {
            return Err(HookError::Wrong(format!(
                "the question has {bytes} bytes, and a service gets at most {MAX_QUESTION}; a program gets \
                 questions of any size"
            )));
        }
        let mut request = Request::new(question);
        // A little longer than it is waited for: whoever asks notices first that the answer is late.
        request.set_timeout(self.timeout + GRACE);
        if let Some(trace) = asked.trace {
            trace.set_on(&mut request);
        }
        let end = Instant::now() + self.timeout;
        match client.ask(request).await {
            Ok(answer) => Verdict::try_from(answer.into_inner())
                .map_err(|error| HookError::Wrong(format!("its answer cannot be read: {error}"))),
            Err(status) => Err(error_of(&status, end).await),
        }
    }
}

/// What an error of a call means. If the time is over, the caller has ended this, and it never returns.
async fn error_of(status: &Status, end: Instant) -> HookError {
    let error = RpcError::from_status(status);
    match error.kind() {
        ErrorKind::Unavailable | ErrorKind::ResourceExhausted => {
            HookError::Unreachable(error.to_string())
        }
        ErrorKind::DeadlineExceeded if Instant::now() + MARGIN >= end => {
            std::future::pending().await
        }
        _ => HookError::Wrong(format!("it answered with an error: {error}")),
    }
}

#[cfg(test)]
mod tests;
