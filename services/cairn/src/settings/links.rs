//! Where the services are that run in other processes.

use super::no_address;
use crate::node::{Placement, Service};
use crate::tokens::Tokens;
use cairn_rpc::{Address, Link, RemoteOptions};
use serde::de::{Deserializer, Error, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Addresses of the other services, for a process that has only some.
///
/// Each may be several addresses, and each name among them may stand for several processes; calls
/// go to those that serve, one after the other. Over a file there is one memory service.
#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSettings {
    /// The memory service.
    pub memory: Addresses,
    /// The tools services.
    pub tools: Addresses,
    /// The executors.
    pub executor: Addresses,
    /// The planners.
    pub planner: Addresses,
}

impl Default for LinkSettings {
    /// Where `cairn serve` with the name of a service listens on this machine.
    fn default() -> Self {
        let here = |service| Addresses(vec![Address::from(internal_address(service))]);
        Self {
            memory: here(Service::Memory),
            tools: here(Service::Tools),
            executor: here(Service::Executor),
            planner: here(Service::Planner),
        }
    }
}

impl LinkSettings {
    /// The ports of all of them.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        let all = [&self.memory, &self.tools, &self.executor, &self.planner];
        let addresses = all.into_iter().flat_map(|addresses| &addresses.0);
        addresses.filter_map(|address| {
            let (_, port) = address.host_and_port()?.rsplit_once(':')?;
            port.parse().ok()
        })
    }

    /// A process with these services, which finds the tokens of the others there.
    pub fn placement(&self, here: BTreeSet<Service>, tokens: &Tokens) -> Placement {
        let elsewhere = [
            (Service::Memory, &self.memory),
            (Service::Tools, &self.tools),
            (Service::Executor, &self.executor),
            (Service::Planner, &self.planner),
        ];
        let elsewhere = elsewhere.map(|(service, addresses)| (service, addresses.0.clone()));
        Placement {
            here,
            elsewhere: BTreeMap::from(elsewhere),
            tokens: Some(Arc::new(tokens.clone())),
        }
    }
}

/// Where a service listens for the others if nothing else is said.
pub fn internal_address(service: Service) -> SocketAddr {
    let port = match service {
        Service::Memory => 7881,
        Service::Tools => 7882,
        Service::Executor => 7883,
        Service::Planner => 7884,
        Service::Orchestrator => 7885,
    };
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// One address or more, with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses(pub Vec<Address>);

impl Addresses {
    /// A link to one of them that serves. Must be called inside a tokio runtime.
    pub fn link(&self, tokens: &Tokens) -> Link {
        let options = RemoteOptions::default().with_tokens(Arc::new(tokens.clone()));
        match &self.0[..] {
            [address] => Link::remote_with(address, &options),
            several => Link::to_service("cairn", several, options),
        }
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(Address::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

const ALLOWED: &str = "http://host:port or unix:/path/to/socket; several with commas between them";

impl Serialize for Addresses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_string().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Addresses;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(ALLOWED)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Addresses, E> {
                let addresses = text.split(',').map(|text| text.trim().parse());
                let addresses: Result<Vec<Address>, _> = addresses.collect();
                addresses
                    .map(Addresses)
                    .map_err(|_| E::invalid_value(no_address(text), &self))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
