//! Where a link leads and where a listener waits.

use http::Uri;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use thiserror::Error;

/// The address of a service: `http://host:port` or `unix:/path/to/socket`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address(pub(crate) Place);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Http(Uri),
    Unix(PathBuf),
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("\"{text}\" is not an address; allowed: http://host:port or unix:/path/to/socket")]
pub struct AddressError {
    text: String,
}

impl Address {
    /// The address of a Unix socket.
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self(Place::Unix(path.into()))
    }

    /// The path of the socket, if this is a Unix socket's address.
    pub fn unix_path(&self) -> Option<&Path> {
        match &self.0 {
            Place::Unix(path) => Some(path),
            Place::Http(_) => None,
        }
    }

    /// `host:port`, as `TcpListener::bind` takes it, if this is not a Unix socket.
    pub fn host_and_port(&self) -> Option<&str> {
        match &self.0 {
            Place::Unix(_) => None,
            Place::Http(uri) => uri.authority().map(|authority| authority.as_str()),
        }
    }

    /// The port, if the host is this machine by a loopback address or by the name `localhost`.
    pub fn loopback_port(&self) -> Option<u16> {
        let Place::Http(uri) = &self.0 else {
            return None;
        };
        let host = uri.host()?;
        let address = host.trim_start_matches('[').trim_end_matches(']').parse();
        let is_loopback = address.is_ok_and(|ip: IpAddr| ip.to_canonical().is_loopback());
        let is_here = is_loopback || host.eq_ignore_ascii_case("localhost");
        uri.port_u16().filter(|_| is_here)
    }
}

impl From<std::net::SocketAddr> for Address {
    fn from(address: std::net::SocketAddr) -> Self {
        let uri = Uri::builder()
            .scheme("http")
            .authority(address.to_string())
            .path_and_query("/")
            .build();
        // A socket address is always an authority; the default leads nowhere.
        Self(Place::Http(uri.unwrap_or_default()))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let error = || AddressError {
            text: crate::text::clip(text, 256),
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if path.is_empty() || path.contains('\0') {
                return Err(error());
            }
            return Ok(Self::unix(path));
        }
        let uri: Uri = text.parse().map_err(|_| error())?;
        let is_http = uri.scheme_str() == Some("http") && uri.port_u16().is_some();
        let is_bare = uri.path() == "/" && uri.query().is_none();
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        let has_user = uri.authority().is_some_and(|a| a.as_str().contains('@'));
        if !is_http || !is_bare || !has_host || has_user {
            return Err(error());
        }
        Ok(Self(Place::Http(uri)))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Http(uri) => f.write_str(uri.to_string().trim_end_matches('/')),
            Place::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for text in [
            "http://127.0.0.1:50051",
            "http://[::1]:50051",
            "http://memory.cairn.svc:50051",
            "unix:/run/cairn.sock",
            "unix:data/cairn.sock",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        let slashed: Address = "http://a:1/".parse().unwrap();
        assert_eq!(slashed.host_and_port(), Some("a:1"));
        let socket: Address = "unix:///run/a.sock".parse().unwrap();
        assert_eq!(socket, Address::unix("/run/a.sock"));
        let bound = Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], 80)));
        assert_eq!(bound, "http://127.0.0.1:80".parse().unwrap());
    }

    #[test]
    fn a_loopback_address_is_of_this_machine() {
        let port = |text: &str| text.parse::<Address>().unwrap().loopback_port();
        for here in [
            "http://127.0.0.1:7",
            "http://127.1.2.3:7",
            "http://[::1]:7",
            "http://[::ffff:127.0.0.1]:7",
            "http://localhost:7",
            "http://LocalHost:7",
        ] {
            assert_eq!(port(here), Some(7), "{here}");
        }
        for elsewhere in [
            "http://10.0.0.1:7",
            "http://[fd00::1]:7",
            "http://0.0.0.0:7",
            "http://localhost.example:7",
            "http://memory:7",
            "unix:/run/s",
        ] {
            assert_eq!(port(elsewhere), None, "{elsewhere}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a",
            "a:1",
            "127.0.0.1:1",
            "https://a:1",
            "http://a",
            "http://a:1/path",
            "http://a:1?q",
            "http://u@a:1",
            "http://:1",
            "unix:",
            "unix:\0",
            "ftp://a:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text:?}");
        }
    }
}
