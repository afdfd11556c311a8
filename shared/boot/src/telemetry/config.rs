//! The settings of telemetry.

use crate::config::{Checks, Settings};
use http::Uri;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;

const AUTO: &str = "auto";
pub(super) const OFF: &str = "off";
/// Where collectors listen for OTLP over gRPC.
const OTLP_PORT: u16 = 4317;
/// Where servers with TLS listen.
const TLS_PORT: u16 = 443;
/// What names a collector.
pub(super) const ALLOWED: &str =
    "http://host:port or https://host:port of a collector that takes OTLP over gRPC, or off";

/// Where traces and metrics go, and what may be in them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TelemetryConfig {
    /// The collector that traces are sent to, as OTLP over gRPC: `http://host:port`, or `https://host:port`
    /// with a certificate that the system trusts. `off` is the same as none. Headers for it are taken from
    /// `OTEL_EXPORTER_OTLP_HEADERS`.
    pub otlp: Option<String>,
    /// Whether prompts, replies, and arguments and results of tools are in traces.
    pub content: bool,
    /// Where `cairn serve` shows its metrics.
    pub metrics: MetricsAddress,
}

/// Where metrics are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetricsAddress {
    /// On a port of 127.0.0.1 that the services have by default.
    #[default]
    Auto,
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

impl TelemetryConfig {
    /// The address of the collector, with a port. None if there is none, or if it is not allowed.
    pub fn endpoint(&self) -> Option<String> {
        let text = self.otlp.as_deref()?;
        endpoint(text).ok().flatten()
    }
}

impl Settings for TelemetryConfig {
    fn check(&self, checks: &mut Checks) {
        let fault = self.otlp.as_deref().and_then(|text| endpoint(text).err());
        let problem = fault.unwrap_or_default();
        checks.require(fault.is_none(), "otlp", problem, ALLOWED);
    }
}

/// What is wrong is said without the text: there may be a password in it.
pub(super) fn endpoint(text: &str) -> Result<Option<String>, &'static str> {
    if text.is_empty() || text == OFF {
        return Ok(None);
    }
    let uri: Uri = text.parse().map_err(|_| "is not an address")?;
    let (scheme, port) = match uri.scheme_str() {
        Some("http") => ("http", OTLP_PORT),
        Some("https") => ("https", TLS_PORT),
        _ => return Err("does not begin with http:// or https://"),
    };
    let authority = uri.authority().ok_or("names no host")?;
    if authority.as_str().contains('@') {
        return Err(
            "has credentials in it, which would be shown with the settings; put them into the \
             variable OTEL_EXPORTER_OTLP_HEADERS",
        );
    }
    if authority.host().is_empty() {
        return Err("names no host");
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("has more than a host and a port");
    }
    let port = authority.port_u16().unwrap_or(port);
    Ok(Some(format!("{scheme}://{}:{port}", authority.host())))
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(AUTO),
            Self::Off => f.write_str(OFF),
            Self::At(address) => write!(f, "{address}"),
        }
    }
}

impl Serialize for MetricsAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MetricsAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = MetricsAddress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address with a port, such as 127.0.0.1:9464, or auto, or off")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<MetricsAddress, E> {
                match text {
                    AUTO => return Ok(MetricsAddress::Auto),
                    OFF => return Ok(MetricsAddress::Off),
                    _ => {}
                }
                let parsed = text.parse().map(MetricsAddress::At);
                parsed.map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Layers};

    fn load(toml: &str) -> Result<TelemetryConfig, String> {
        let loaded = Layers::new().text("cairn.toml", toml).load();
        loaded
            .map(|loaded| loaded.config)
            .map_err(|faults| faults.to_string())
    }

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        let endpoint = |text: &str| load(&format!("otlp = {text:?}")).map(|c| c.endpoint());
        for (text, expected) in [
            ("http://localhost:4317", Some("http://localhost:4317")),
            ("http://collector", Some("http://collector:4317")),
            ("http://[::1]:14317/", Some("http://[::1]:14317")),
            ("https://collector:4317", Some("https://collector:4317")),
            ("https://collector", Some("https://collector:443")),
            ("off", None),
            ("", None),
        ] {
            assert_eq!(endpoint(text).unwrap().as_deref(), expected, "{text}");
        }
        assert_eq!(TelemetryConfig::default().endpoint(), None);
    }

    #[test]
    fn what_is_no_endpoint_is_refused_and_not_shown() {
        for text in [
            "http://user:canary@collector:4317",
            "http://canary@collector",
            "http://collector:4317/canary",
            "http://collector:4317/?key=canary",
            "grpc://canary:4317",
            "canary:4317",
            "canary",
            "http://:4317canary",
            "http://canary\n",
            "/canary",
        ] {
            let said = load(&format!("otlp = {text:?}")).unwrap_err();
            assert!(said.contains("otlp"), "{text}: {said}");
            assert!(said.contains("http://host:port"), "{text}: {said}");
            assert!(!said.contains("canary"), "{text}: {said}");
        }
    }

    #[test]
    fn metrics_have_an_address_or_none() {
        let metrics = |text: &str| load(&format!("metrics = {text:?}")).map(|c| c.metrics);
        let at = MetricsAddress::At(SocketAddr::from(([127, 0, 0, 1], 9464)));
        assert_eq!(metrics("127.0.0.1:9464"), Ok(at));
        assert_eq!(metrics("off"), Ok(MetricsAddress::Off));
        assert_eq!(metrics("auto"), Ok(MetricsAddress::Auto));
        for text in ["", "on", "9464", "localhost:9464"] {
            let said = metrics(text).unwrap_err();
            assert!(said.contains("127.0.0.1:9464, or auto, or off"), "{said}");
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        let environment = Environment::of([("CAIRN_METRICS", "0.0.0.0:1"), ("CAIRN_OTLP", "off")]);
        let loaded = Layers::new().environment(&environment).load();
        let loaded = loaded.map_err(|faults| faults.to_string()).unwrap();
        let config: &TelemetryConfig = &loaded.config;
        assert_eq!(load(&loaded.show()).as_ref(), Ok(config));
    }
}
