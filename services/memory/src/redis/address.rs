//! Where servers are, and how they are spoken to.

use super::open::OpenError;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates,
};
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After this time without an answer a connection counts as dead.
const SILENCE: Duration = Duration::from_secs(5);

/// The address of a server: `redis://` or `rediss://` (with TLS), and then
/// `[user][:password@]host[:port]`. It may hold a password, and so never shows itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct RedisUrl(String);

impl From<&str> for RedisUrl {
    fn from(url: &str) -> Self {
        Self(url.to_owned())
    }
}

impl From<String> for RedisUrl {
    fn from(url: String) -> Self {
        Self(url)
    }
}

impl fmt::Debug for RedisUrl {
    /// All but user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else {
            return f.write_str("(not a URL)");
        };
        let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
        let host = host.split(['?', '#']).next().unwrap_or_default();
        write!(f, "{scheme}://{host}")
    }
}

/// What this process shows to servers that want to know who connects.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificate {
    /// The certificate, and those between it and its authority's, as PEM.
    pub cert_file: PathBuf,
    /// Its private key, as PEM.
    pub key_file: PathBuf,
}

/// The files of a connection with TLS.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TlsFiles<'a> {
    /// Whom servers are trusted by, in place of the usual ones.
    pub(super) authorities: Option<&'a Path>,
    pub(super) client: Option<&'a ClientCertificate>,
}

/// A server with all that is needed to connect to it.
#[derive(Clone)]
pub(super) struct Endpoint {
    info: ConnectionInfo,
    /// Whether others may reach it without a password, for all that the settings say.
    allow_exposed: bool,
}

impl Endpoint {
    /// # Errors
    /// If it is not an address, or a file of certificates does not serve.
    pub(super) fn parse(url: &RedisUrl, files: TlsFiles<'_>) -> Result<Self, OpenError> {
        let bad = || OpenError::Address { url: url.clone() };
        let scheme = url.0.split("://").next().unwrap_or_default();
        let is_redis = ["redis", "rediss"]
            .iter()
            .any(|it| it.eq_ignore_ascii_case(scheme));
        if !is_redis || url.0.contains('#') {
            return Err(bad());
        }
        let info = url.0.as_str().into_connection_info().map_err(|_| bad())?;
        let is_tls = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        if is_tls {
            // Fails if the process has chosen one already, which then holds.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let info = match is_tls {
            true => files.with(&info)?,
            false => info,
        };
        let redis = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("cairn", env!("CARGO_PKG_VERSION"));
        let info = info
            .set_redis_settings(redis)
            .set_tcp_settings(tcp_settings());
        Ok(Self {
            info,
            allow_exposed: false,
        })
    }

    /// The same, and whether others may reach it without a password.
    pub(super) fn allowing(self, allow_exposed: bool) -> Self {
        Self {
            allow_exposed,
            ..self
        }
    }

    /// The same for whoever has no user and no password.
    pub(super) fn of_anybody(&self) -> Self {
        let nobody = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
        Self {
            info: self.info.clone().set_redis_settings(nobody),
            allow_exposed: self.allow_exposed,
        }
    }

    /// A server at another place that is spoken to in the same way.
    pub(super) fn at(&self, host: &str, port: u16) -> Self {
        let addr = match self.info.addr() {
            ConnectionAddr::TcpTls {
                insecure,
                tls_params,
                ..
            } => ConnectionAddr::TcpTls {
                host: host.to_owned(),
                port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            _ => ConnectionAddr::Tcp(host.to_owned(), port),
        };
        Self {
            info: self.info.clone().set_addr(addr),
            allow_exposed: self.allow_exposed,
        }
    }

    /// The same without the database's number, for servers that have none.
    pub(super) fn without_database(&self) -> Self {
        let redis = self.info.redis_settings().clone().set_db(0);
        Self {
            info: self.info.clone().set_redis_settings(redis),
            allow_exposed: self.allow_exposed,
        }
    }

    pub(super) fn database(&self) -> i64 {
        self.info.redis_settings().db()
    }

    pub(super) fn host(&self) -> &str {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host,
            _ => "localhost",
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.info.addr(), ConnectionAddr::TcpTls { .. })
    }

    /// `host:port`.
    pub(super) fn place(&self) -> String {
        self.info.addr().to_string()
    }

    /// For errors and logs.
    pub(super) fn name(&self) -> String {
        format!("redis at {}", self.place())
    }

    /// Whether others than this machine can reach the server, and it lets them in without a
    /// password, as far as the address tells, and they may not.
    pub(super) fn is_exposed(&self) -> bool {
        let host = self.host();
        let is_local = host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback());
        !is_local && self.info.redis_settings().password().is_none() && !self.allow_exposed
    }

    pub(super) fn may_be_exposed(&self) -> bool {
        self.allow_exposed
    }

    pub(super) fn client(&self) -> redis::RedisResult<Client> {
        Client::open(self.info.clone())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl TlsFiles<'_> {
    /// Each file is tried apart from the other, so that an error names the one that does not serve.
    fn with(self, info: &ConnectionInfo) -> Result<ConnectionInfo, OpenError> {
        let mut certificates = TlsCertificates {
            client_tls: None,
            root_cert: None,
        };
        let mut tried = info.clone();
        if let Some(file) = self.authorities {
            certificates.root_cert = Some(read(file, CERTIFICATE)?);
            tried = taken(info, &certificates, file)?;
        }
        if let Some(client) = self.client {
            certificates.client_tls = Some(ClientTlsConfig {
                client_cert: read(&client.cert_file, CERTIFICATE)?,
                client_key: read(&client.key_file, KEY)?,
            });
            tried = taken(info, &certificates, &client.cert_file)?;
        }
        Ok(tried)
    }
}

/// How a certificate or a key ends its first line in PEM, after its kind.
const CERTIFICATE: &str = "CERTIFICATE-----";
const KEY: &str = "PRIVATE KEY-----";

/// A file with something of that kind in it: without, servers would be refused for a reason that leads
/// nowhere.
fn read(file: &Path, kind: &str) -> Result<Vec<u8>, OpenError> {
    let is_there = |text: &[u8]| text.windows(kind.len()).any(|part| part == kind.as_bytes());
    let none = || {
        let text = format!("it has nothing that begins -----BEGIN … {kind}");
        std::io::Error::new(std::io::ErrorKind::InvalidData, text)
    };
    let text = std::fs::read(file).and_then(|text| match is_there(&text) {
        true => Ok(text),
        false => Err(none()),
    });
    text.map_err(|source| OpenError::Certificates {
        file: file.to_owned(),
        source,
    })
}

fn taken(
    info: &ConnectionInfo,
    certificates: &TlsCertificates,
    file: &Path,
) -> Result<ConnectionInfo, OpenError> {
    let client = Client::build_with_tls(info.clone(), certificates.clone());
    let client = client.map_err(|error| OpenError::Certificates {
        file: file.to_owned(),
        source: std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()),
    })?;
    Ok(client.get_connection_info().clone())
}

/// A connection whose other end is gone without a word is found out in [`SILENCE`].
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new()
        .with_time(SILENCE)
        .with_interval(Duration::from_secs(1));
    let settings = TcpSettings::default()
        .set_nodelay(true)
        .set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(SILENCE);
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_never_shows_user_or_password() {
        let url = RedisUrl::from("rediss://me:canary@host:1/0?x=canary");
        assert_eq!(format!("{url:?}"), "rediss://host:1/0");
        let endpoint =
            Endpoint::parse(&"redis://me:canary@host:1".into(), TlsFiles::default()).unwrap();
        assert_eq!(format!("{endpoint:?}"), "redis at host:1");
        let error = Endpoint::parse(&"redis://me:canary@".into(), TlsFiles::default()).unwrap_err();
        assert!(!format!("{error:?} {error}").contains("canary"));
    }

    #[test]
    fn only_addresses_of_redis_are_taken() {
        for url in [
            "host:6379",
            "http://host",
            "unix:///x",
            "rediss://h/#insecure",
        ] {
            let parsed = Endpoint::parse(&url.into(), TlsFiles::default());
            assert!(matches!(parsed, Err(OpenError::Address { .. })), "{url}");
        }
    }

    #[test]
    fn a_scheme_may_be_in_capitals() {
        for (url, place) in [("REDIS://h:1", "h:1"), ("Rediss://h:2", "h:2")] {
            let endpoint = Endpoint::parse(&url.into(), TlsFiles::default()).unwrap();
            assert_eq!(endpoint.place(), place);
        }
    }

    #[test]
    fn a_server_that_others_reach_without_a_password_is_exposed() {
        for (url, is_exposed) in [
            ("redis://127.0.0.1", false),
            ("redis://[::1]", false),
            ("redis://localhost", false),
            ("redis://host", true),
            ("redis://10.0.0.1", true),
            ("redis://:secret@10.0.0.1", false),
        ] {
            let endpoint = Endpoint::parse(&url.into(), TlsFiles::default()).unwrap();
            assert_eq!(endpoint.is_exposed(), is_exposed, "{url}");
        }
    }
}
