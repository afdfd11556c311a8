//! What a confined program may do. The service decides it, the supervising process keeps a part of it, and the
//! second stage the rest.

use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::path::PathBuf;

/// What a confined program reaches over the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing: it can make no socket, not even one for a file of this machine.
    #[default]
    None,
    /// TCP among the program's own processes, over a loopback device of their own.
    Loopback,
    /// TCP to and on these ports, of this machine and of every other.
    Ports(Vec<u16>),
}

/// What settings may write.
const ALLOWED: &str = "\"none\", \"loopback\" or a list of ports from 1 to 65535";

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Loopback => serializer.serialize_str("loopback"),
            Self::Ports(ports) => ports.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// Reads what settings write: a word, or a list.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Network;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ALLOWED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Network, E> {
        let ports = || {
            // As a variable of the environment has it.
            let ports = text.split(',').map(|port| port.trim().parse());
            of_ports(ports.collect::<Result<_, _>>().ok()?)
        };
        match text {
            "none" => Ok(Network::None),
            "loopback" => Ok(Network::Loopback),
            _ => ports().ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Network, A::Error> {
        let mut ports = Vec::new();
        while let Some(port) = items.next_element()? {
            ports.push(port);
        }
        of_ports(ports).ok_or_else(|| A::Error::invalid_value(Unexpected::Seq, &self))
    }
}

fn of_ports(ports: Vec<u16>) -> Option<Network> {
    (!ports.is_empty() && !ports.contains(&0)).then_some(Network::Ports(ports))
}

/// What all processes of one program may use up together. The supervising process kills all of them beyond it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Processes at one time.
    pub processes: u32,
    /// Bytes written below the workspace, the other folders that it may write, and its folder for temporary files.
    pub bytes: u64,
    /// Bytes of memory.
    pub memory: u64,
}

/// What a confined program may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// Files and folders that it may read and execute.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may read, execute and change.
    pub write: Vec<PathBuf>,
    /// The folder in which its own folder for temporary files is made.
    pub temporary: PathBuf,
    /// What it reaches over the network.
    pub network: Network,
    /// Everything that it may not change is mounted read-only for it.
    pub mounts: bool,
    /// What all its processes may use up together.
    pub caps: Caps,
}

impl Bounds {
    /// As an argument of a process.
    pub(crate) fn to_argument(&self) -> String {
        // Only paths that are no text could fail, and none of these is taken in.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Self::to_argument`] wrote.
    pub(crate) fn of_argument(argument: &str) -> Option<Self> {
        serde_json::from_str(argument).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read_as_it_is_written() {
        for (written, network) in [
            (r#""none""#, Network::None),
            (r#""loopback""#, Network::Loopback),
            ("[80,443]", Network::Ports(vec![80, 443])),
        ] {
            assert_eq!(serde_json::from_str::<Network>(written).unwrap(), network);
            assert_eq!(serde_json::to_string(&network).unwrap(), written);
        }
        let of_variable = serde_json::from_str::<Network>(r#""80, 443""#).unwrap();
        assert_eq!(of_variable, Network::Ports(vec![80, 443]));
        for bad in [r#""all""#, "[0]", "[65536]", "true", "80", r#""""#] {
            serde_json::from_str::<Network>(bad).unwrap_err();
        }
    }

    #[test]
    fn bounds_survive_an_argument() {
        let bounds = Bounds {
            read: vec!["/usr".into()],
            write: vec!["/w s/\"x\"".into()],
            temporary: "/tmp".into(),
            network: Network::Ports(vec![8080]),
            mounts: true,
            caps: Caps {
                processes: 3,
                bytes: u64::MAX,
                memory: 5,
            },
        };
        assert_eq!(Bounds::of_argument(&bounds.to_argument()), Some(bounds));
        assert_eq!(Bounds::of_argument("-"), None);
    }
}
