//! Building a client, sending, and reading an answer up to its limit.

use crate::{HttpConfig, HttpError};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use reqwest::{RequestBuilder, Response, redirect};
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Makes ring the process's provider of cryptography, unless one is set already.
///
/// `main` and test binaries call it first, before anything else may choose; it may be repeated.
pub fn install_crypto_provider() {
    // The error says that a provider is installed, which is all that is wanted.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// Builds a client with the limits of `config`.
///
/// It follows no redirect, so that a header never goes where its owner did not send it, and reads no
/// proxy from the environment. The system's CA certificates are read here: build a client once
/// and clone it.
///
/// # Errors
/// [`HttpError::Config`] if an answer could be waited for without end, [`HttpError::Build`] if
/// there are no CA certificates.
pub fn build_client(config: &HttpConfig) -> Result<HttpClient, HttpError> {
    if config.total_timeout.is_none() && config.idle_timeout.is_none() {
        return Err(HttpError::Config {
            message: "set a total timeout, an idle timeout or both",
        });
    }
    // Without a provider the library underneath panics; nobody should have to remember that.
    install_crypto_provider();
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the place where clients are built"
    )]
    let mut builder = reqwest::Client::builder()
        .connect_timeout(config.connect_timeout)
        .user_agent(&config.user_agent)
        .redirect(redirect::Policy::none())
        .referer(false)
        .no_proxy();
    for proxy in config.proxies.of_client()? {
        builder = builder.proxy(proxy);
    }
    if let Some(total) = config.total_timeout {
        builder = builder.timeout(total);
    }
    if let Some(idle) = config.idle_timeout {
        // The library knows one limit for all silences. Ours are finer and strike first; its own
        // is what a client has that is used raw.
        builder = builder.read_timeout(idle.max(config.first_byte_timeout.unwrap_or_default()));
    }
    let inner = builder
        .build()
        .map_err(|source| HttpError::Build { source })?;
    Ok(HttpClient {
        inner,
        config: config.clone(),
    })
}

/// An HTTP client with its limits. Clones share one pool of connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    inner: reqwest::Client,
    config: HttpConfig,
}

impl HttpClient {
    /// Starts a GET request.
    pub fn get(&self, url: &str) -> RequestBuilder {
        self.inner.get(url)
    }

    /// Starts a POST request.
    pub fn post(&self, url: &str) -> RequestBuilder {
        self.inner.post(url)
    }

    /// The client underneath, for a library that wants one: all guards hold but the limit on the
    /// size of answers.
    pub fn raw(&self) -> &reqwest::Client {
        &self.inner
    }

    /// Sends a request and waits for the head of its answer, whatever its status.
    ///
    /// # Errors
    /// See [`HttpError`]; a status is never an error here.
    pub async fn send(&self, request: RequestBuilder) -> Result<HttpResponse, HttpError> {
        let clock = Clock {
            started: Instant::now(),
            connect: self.config.connect_timeout,
            total: self.config.total_timeout,
            first_byte: self.config.first_byte_timeout,
            idle: self.config.idle_timeout,
        };
        let sent = within(clock.until_first_byte(), request.send()).await?;
        let inner = sent.map_err(|error| clock.explain(error, clock.silence_at(0)))?;
        Ok(HttpResponse {
            inner,
            clock,
            read: 0,
            limit: self.config.max_response_bytes,
        })
    }
}

/// An answer whose body is still to be read.
#[derive(Debug)]
pub struct HttpResponse {
    inner: Response,
    clock: Clock,
    read: u64,
    limit: u64,
}

impl HttpResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.inner.status()
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// Time since the request was sent.
    pub fn elapsed(&self) -> Duration {
        self.clock.started.elapsed()
    }

    /// Sets another limit on the body, in bytes after decompression.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// The next piece of the body; none at its end.
    ///
    /// # Errors
    /// [`HttpError::TooLarge`] as soon as the limit is passed, [`HttpError::Timeout`] or
    /// [`HttpError::Broken`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let too_large = HttpError::TooLarge { limit: self.limit };
        // The announced length is that of what travels: it is absent for compressed bodies.
        if self.read == 0 && self.inner.content_length() > Some(self.limit) {
            return Err(too_large);
        }
        let limit = match self.read {
            0 => self.clock.until_first_byte(),
            _ => self.clock.idle.map(|idle| (idle, idle)),
        };
        let chunk = within(limit, self.inner.chunk()).await?;
        let silence = self.clock.silence_at(self.read);
        let Some(bytes) = chunk.map_err(|error| self.clock.explain(error, silence))? else {
            return Ok(None);
        };
        self.read = self.read.saturating_add(bytes.len() as u64);
        if self.read > self.limit {
            return Err(too_large);
        }
        Ok(Some(bytes))
    }

    /// The whole body.
    ///
    /// # Errors
    /// As [`HttpResponse::chunk`].
    pub async fn bytes(mut self) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// The limits of one exchange and when it began: the library says that a limit was reached, but
/// not which.
#[derive(Debug, Clone, Copy)]
struct Clock {
    started: Instant,
    connect: Duration,
    total: Option<Duration>,
    first_byte: Option<Duration>,
    idle: Option<Duration>,
}

/// Waits as long as the limit allows: what is left of it, and the whole for the error.
async fn within<T>(
    limit: Option<(Duration, Duration)>,
    work: impl Future<Output = T>,
) -> Result<T, HttpError> {
    match limit {
        None => Ok(work.await),
        Some((left, after)) => tokio::time::timeout(left, work)
            .await
            .map_err(|_| HttpError::Timeout { after }),
    }
}

impl Clock {
    /// What is left of the time to the first byte, and the whole of it.
    fn until_first_byte(&self) -> Option<(Duration, Duration)> {
        let first = self.first_byte?;
        Some((first.saturating_sub(self.started.elapsed()), first))
    }

    /// The limit on silence after so many bytes.
    fn silence_at(&self, read: u64) -> Option<Duration> {
        match read {
            0 => self.first_byte.or(self.idle),
            _ => self.idle,
        }
    }

    fn explain(&self, error: reqwest::Error, silence: Option<Duration>) -> HttpError {
        let host = error.url().map_or_else(String::new, host_of);
        let is_here = error.url().is_some_and(is_here);
        let source = error.without_url();
        if source.is_timeout() {
            HttpError::Timeout {
                after: self.reached(source.is_connect(), silence),
            }
        } else if source.is_builder() {
            HttpError::Request { source }
        } else if source.is_connect() {
            HttpError::Connect {
                host,
                is_refused_here: is_here && is_refused(&source),
                source,
            }
        } else {
            HttpError::Broken { source }
        }
    }

    fn reached(&self, connecting: bool, silence: Option<Duration>) -> Duration {
        let elapsed = self.started.elapsed();
        match (self.total, silence) {
            (Some(total), _) if elapsed >= total => total,
            _ if connecting => self.connect,
            (_, Some(silence)) => silence,
            (Some(total), None) => total,
            (None, None) => elapsed,
        }
    }
}

/// Whether a host, as a URL has it, is this machine: a loopback address or `localhost`.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    match address {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn is_here(url: &reqwest::Url) -> bool {
    url.host_str().is_some_and(is_loopback)
}

/// Nothing listens there. Without IPv6, the address `::1` of `localhost` does not exist.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{AddrNotAvailable, ConnectionRefused};
    let mut cause = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| matches!(io.kind(), ConnectionRefused | AddrNotAvailable)) {
            return true;
        }
        cause = error.source();
    }
    false
}

fn host_of(url: &reqwest::Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_and_localhost_are_this_machine() {
        for host in [
            "localhost",
            "LOCALHOST",
            "127.0.0.1",
            "127.1.2.3",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["", "10.0.0.1", "[::2]", "localhost.example", "127.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
