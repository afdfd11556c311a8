use super::*;
use cairn_engine::pool::PoolView;
use cairn_proto::api::ResourceCapability;
use prost::Message as _;

fn stored(id: &str, version: u64, value: Vec<u8>) -> Stored {
    Stored {
        id: id.to_owned(),
        version,
        changed_unix_ms: 7,
        value: value.into(),
        deleted: false,
    }
}

fn resource(id: &str, capability: &str) -> Stored {
    let resource = Resource {
        id: id.to_owned(),
        kind: "machine".to_owned(),
        capabilities: vec![ResourceCapability {
            name: capability.to_owned(),
            level: 0,
        }],
        slots: 2,
        ..Resource::default()
    };
    stored(id, 3, resource.encode_to_vec())
}

fn grant(id: &str, granted: &str) -> Stored {
    let grant = AgentGrant {
        granted: vec![granted.to_owned()],
        ..AgentGrant::default()
    };
    stored(id, 3, grant.encode_to_vec())
}

fn listed(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|&id| id.to_owned()).collect()
}

fn shown(view: &PoolView) -> Vec<(&str, u32, u32)> {
    let resources = view.resources.iter();
    let shown = resources.map(|it| {
        let level = it.capabilities.values().next().copied();
        (&*it.id, it.slots, level.unwrap_or_default())
    });
    shown.collect()
}

#[test]
fn a_second_listing_replaces_the_first_once_it_is_complete() {
    let (mut pool, mut members) = (Pool::default(), Members::default());
    let kind = DocumentKind::Resource;
    for it in [resource("a", "gpu"), resource("b", "gpu")] {
        assert!(pool.take_document(kind, &it, &mut members));
    }
    assert!(!pool.has_resources);
    assert!(pool.complete(kind, &listed(&["a", "b"]), &mut members));
    assert!(pool.has_resources && !pool.has_grants);
    assert_eq!(shown(&pool.view(&mut members)), [("a", 2, 1), ("b", 2, 1)]);
    assert!(!pool.take_document(kind, &resource("a", "gpu"), &mut members));
    assert!(pool.complete(kind, &listed(&["a"]), &mut members));
    assert!(!pool.complete(kind, &listed(&["a"]), &mut members));
    assert_eq!(shown(&pool.view(&mut members)), [("a", 2, 1)]);
    let gone = Stored {
        deleted: true,
        ..stored("a", 4, Vec::new())
    };
    assert!(pool.take_document(kind, &gone, &mut members));
    assert!(pool.view(&mut members).resources.is_empty());
}

#[test]
fn grants_are_those_of_agents_and_of_executors() {
    let (mut pool, mut members) = (Pool::default(), Members::default());
    let kind = DocumentKind::Grant;
    for id in ["agent:reviewer", "executor:a"] {
        assert!(pool.take_document(kind, &grant(id, "web_search"), &mut members));
    }
    assert!(!pool.take_document(kind, &grant("other", "web_search"), &mut members));
    assert!(pool.grants().grants("reviewer", "web_search"));
    assert!(pool.granted["a"].granted.contains("web_search"));
    assert!(pool.complete(kind, &listed(&["executor:a"]), &mut members));
    assert!(!pool.grants().grants("reviewer", "web_search"));
    assert!(pool.granted.contains_key("a"));
    assert!(pool.complete(kind, &listed(&[]), &mut members));
    assert!(pool.granted.is_empty());
}

#[test]
fn a_document_that_cannot_be_read_is_none() {
    let (mut pool, mut members) = (Pool::default(), Members::default());
    let kind = DocumentKind::Resource;
    assert!(pool.take_document(kind, &resource("a", "gpu"), &mut members));
    let damaged = stored("a", 4, vec![0xff]);
    assert!(pool.take_document(kind, &damaged, &mut members));
    assert!(pool.view(&mut members).resources.is_empty());
}
