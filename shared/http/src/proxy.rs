//! Proxies as the usual variables name them.

use crate::HttpError;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{NoProxy, Url};
use std::fmt;

/// This machine, which is never reached through a proxy.
const THIS_MACHINE: &str = "localhost,127.0.0.0/8,::1";

/// A connector to servers behind a proxy: each connection is a tunnel through the proxy.
pub type ProxyTunnel = Tunnel<HttpConnector>;

/// Which proxies requests go through. `Debug` shows no credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
    /// Hosts that are reached directly, in the form of `NO_PROXY`.
    direct: String,
    named: Vec<NamedProxy>,
}

/// A proxy, with its credentials.
#[derive(Clone, PartialEq, Eq)]
struct Proxy(Url);

/// A variable about proxies, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedProxy {
    /// The name of the variable.
    pub variable: String,
    /// Its value without credentials; empty if it cannot be used.
    pub value: String,
    /// What it has effect on.
    pub effect: ProxyEffect,
}

/// What a variable about proxies has effect on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyEffect {
    /// Addresses that begin with `https:`.
    Https,
    /// Addresses that begin with `http:`.
    Http,
    /// All other addresses.
    All,
    /// The hosts that it lists are reached directly.
    Direct,
    /// It is no address of a proxy, and ignored.
    Ignored,
}

impl Proxies {
    /// Reads `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, each in lower case first. An empty
    /// variable counts as absent. A proxy without a scheme is `http://`.
    pub fn read<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Self {
        let mut proxies = Self::default();
        let of = |name: &str| {
            let names = [name.to_ascii_lowercase(), name.to_owned()];
            let mut found = names.into_iter().filter_map(|name| {
                let value = variable(&name)?.trim();
                (!value.is_empty()).then_some((name, value))
            });
            found.next()
        };
        proxies.https = proxies.proxy(of("HTTPS_PROXY"), ProxyEffect::Https);
        proxies.http = proxies.proxy(of("HTTP_PROXY"), ProxyEffect::Http);
        let all = proxies.proxy(of("ALL_PROXY"), ProxyEffect::All);
        proxies.https = proxies.https.take().or_else(|| all.clone());
        proxies.http = proxies.http.take().or(all);
        THIS_MACHINE.clone_into(&mut proxies.direct);
        if let Some((variable, value)) = of("NO_PROXY") {
            proxies.direct = format!("{THIS_MACHINE},{value}");
            proxies.named.push(NamedProxy {
                variable,
                value: value.to_owned(),
                effect: ProxyEffect::Direct,
            });
        }
        proxies
    }

    /// The variables that are set, for people.
    pub fn named(&self) -> &[NamedProxy] {
        &self.named
    }

    /// What is wrong with the variables that are ignored, a text for each.
    pub fn faults(&self) -> impl Iterator<Item = String> {
        let ignored = |named: &&NamedProxy| named.effect == ProxyEffect::Ignored;
        let named = self.named.iter().filter(ignored);
        named.map(|named| format!("{} {}", named.variable, NamedProxy::FAULT))
    }

    /// The proxies of a client.
    pub(crate) fn of_client(&self) -> Result<Vec<reqwest::Proxy>, HttpError> {
        let https = self
            .https
            .iter()
            .map(|Proxy(url)| reqwest::Proxy::https(url.clone()));
        let http = self
            .http
            .iter()
            .map(|Proxy(url)| reqwest::Proxy::http(url.clone()));
        let direct = NoProxy::from_string(&self.direct);
        let proxies = https.chain(http).map(|proxy| {
            let proxy = proxy.map_err(|source| HttpError::Build { source })?;
            Ok(proxy.no_proxy(direct.clone()))
        });
        proxies.collect()
    }

    /// A tunnel to the server at `address`; none if it is reached directly. The proxy itself is reached
    /// without TLS.
    pub fn tunnel_to(&self, address: &str) -> Option<ProxyTunnel> {
        let text = |proxy: &Option<Proxy>| {
            let url = proxy.as_ref().map(|Proxy(url)| url.as_str());
            url.unwrap_or_default().to_owned()
        };
        let matcher = Matcher::builder()
            .http(text(&self.http))
            .https(text(&self.https))
            .no(self.direct.as_str())
            .build();
        let found = matcher.intercept(&address.parse().ok()?)?;
        let tunnel = Tunnel::new(found.uri().clone(), HttpConnector::new());
        Some(match found.basic_auth() {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        })
    }

    /// The proxy of a variable, whose effect is noted.
    fn proxy(&mut self, variable: Option<(String, &str)>, effect: ProxyEffect) -> Option<Proxy> {
        let (variable, value) = variable?;
        let proxy = Proxy::parse(value);
        self.named.push(NamedProxy {
            variable,
            value: proxy.as_ref().map_or_else(String::new, Proxy::shown),
            effect: proxy.as_ref().map_or(ProxyEffect::Ignored, |_| effect),
        });
        proxy
    }
}

impl NamedProxy {
    /// What is wrong with a variable that is ignored.
    pub const FAULT: &str =
        "is no address of a proxy (allowed: http://HOST:PORT or https://HOST:PORT)";
}

impl Proxy {
    fn parse(text: &str) -> Option<Self> {
        let url = match text.contains("://") {
            true => Url::parse(text),
            false => Url::parse(&format!("http://{text}")),
        };
        let url = url.ok()?;
        let is_proxy = matches!(url.scheme(), "http" | "https") && url.has_host();
        is_proxy.then_some(Self(url))
    }

    fn shown(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        match self.0.port() {
            Some(port) => format!("{}://{host}:{port}", self.0.scheme()),
            None => format!("{}://{host}", self.0.scheme()),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}
