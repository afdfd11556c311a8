//! Clusters: their servers share the slots, and each partition is in one.

use super::{Layout, first, node_at};
use crate::port::{StoreError, StoreResult};
use crate::redis::address::Endpoint;
use crate::redis::node::Node;
use crate::redis::script::{Odd, Reply};
use redis::Value;
use std::sync::Arc;

/// Slots of any cluster.
const SLOTS: u16 = 16384;

/// The slot of a key whose tag this is: CRC-16 in the form of XMODEM.
pub(super) fn slot(tag: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for byte in tag {
        crc ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let is_high = crc & 0x8000 != 0;
            crc = (crc << 1) ^ if is_high { 0x1021 } else { 0 };
        }
    }
    crc % SLOTS
}

/// A range of slots and the addresses of the server that has them and of its replicas.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: u16,
    to: u16,
    master: Place,
    replicas: Vec<Place>,
}

/// Host and port.
type Place = (String, u16);

/// Asks the servers that are known, and those that the search begins with.
pub(super) async fn find(
    seeds: &[Arc<Node>],
    template: &Endpoint,
    slots: &[u16],
    known: &[Arc<Node>],
) -> StoreResult<Layout> {
    let ranges = ask(seeds, known).await?;
    let known: Vec<_> = known.iter().chain(seeds).cloned().collect();
    let mut layout = Layout {
        nodes: Vec::new(),
        places: Vec::with_capacity(slots.len()),
    };
    for slot in slots {
        let range = ranges.iter().find(|r| (r.from..=r.to).contains(slot));
        let range = range.ok_or_else(|| {
            StoreError::unavailable(format!("the cluster has no server for slot {slot}"))
        })?;
        let endpoint = template.at(&range.master.0, range.master.1);
        let there = endpoint.place();
        let same = |node: &Arc<Node>| node.endpoint.place() == there;
        let place = match layout.nodes.iter().position(same) {
            Some(place) => place,
            None => {
                layout.nodes.push(node_at(endpoint, &known)?);
                layout.nodes.len() - 1
            }
        };
        layout.places.push(place);
    }
    Ok(layout)
}

/// The replicas of all servers.
pub(super) async fn replicas(
    seeds: &[Arc<Node>],
    template: &Endpoint,
    known: &[Arc<Node>],
) -> StoreResult<Vec<Endpoint>> {
    let ranges = ask(seeds, known).await?;
    let replicas = ranges.iter().flat_map(|range| &range.replicas);
    Ok(replicas
        .map(|(host, port)| template.at(host, *port))
        .collect())
}

async fn ask(seeds: &[Arc<Node>], known: &[Arc<Node>]) -> StoreResult<Vec<Range>> {
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let asked = known.iter().chain(seeds).cloned();
    first(asked, &question, "all of its cluster", |node, answer| {
        let ranges = ranges(answer, node.endpoint.host()).ok()?;
        (!ranges.is_empty()).then_some(ranges)
    })
    .await
}

/// What CLUSTER SLOTS answers. A server that does not know its own name is where it was asked.
fn ranges(answer: Value, here: &str) -> Result<Vec<Range>, Odd> {
    let mut answer = Reply::new(answer)?;
    let mut ranges = Vec::with_capacity(answer.len());
    while answer.len() > 0 {
        let mut range = answer.array()?;
        let mut number = || u16::try_from(range.int()?).map_err(|_| Odd);
        let (from, to) = (number()?, number()?);
        let master = place(range.array()?, here)?;
        let mut replicas = Vec::with_capacity(range.len());
        while range.len() > 0 {
            replicas.push(place(range.array()?, here)?);
        }
        ranges.push(Range {
            from,
            to,
            master,
            replicas,
        });
    }
    Ok(ranges)
}

fn place(mut server: Reply, here: &str) -> Result<Place, Odd> {
    let host = server
        .optional()?
        .filter(|host| !host.is_empty() && host != "?");
    let host = match host {
        Some(host) => String::from_utf8(host.into()).map_err(|_| Odd)?,
        None => here.to_owned(),
    };
    Ok((host, u16::try_from(server.int()?).map_err(|_| Odd)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // redis-cli cluster keyslot NAME
        for (tag, want) in [("123456789", 12739), ("foo", 12182), ("p000", 13334)] {
            assert_eq!(slot(tag.as_bytes()), want, "{tag}");
        }
    }

    #[test]
    fn a_server_without_a_name_is_where_it_was_asked() {
        let text = |text: &str| Value::BulkString(text.into());
        let server = |host| Value::Array(vec![host, Value::Int(7000), text("id")]);
        let range = |from, to, hosts: &[Value]| {
            let ends = vec![Value::Int(from), Value::Int(to)];
            let servers = hosts.iter().cloned().map(server);
            Value::Array(ends.into_iter().chain(servers).collect())
        };
        let answer = Value::Array(vec![
            range(0, 99, &[text("10.0.0.1"), text("10.0.0.2")]),
            range(100, 16383, &[Value::Nil]),
        ]);
        let ranges = ranges(answer, "here").unwrap();
        let hosts: Vec<_> = ranges.iter().map(|range| range.master.0.as_str()).collect();
        assert_eq!(hosts, ["10.0.0.1", "here"]);
        let replicas: Vec<_> = ranges.iter().map(|range| range.replicas.clone()).collect();
        assert_eq!(replicas, [vec![("10.0.0.2".to_owned(), 7000)], vec![]]);
        assert_eq!((ranges[1].from, ranges[1].to), (100, 16383));
    }
}
