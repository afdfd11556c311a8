//! The pool as clients see it.

use crate::dispatch::{PoolSnapshot, Registered, ResourceDetails};
use cairn_engine::pool::{
    CapabilityRow, Grant, PoolSummary, PoolView, ResourceState, ResourceView,
};
use cairn_proto::api as pb;
use cairn_proto::time::timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The pool at a moment. What was granted to agents is for the operator alone: their names belong to a namespace.
pub(super) fn pool(pool: &PoolSnapshot, is_operator: bool) -> pb::Pool {
    let resources = pool.view.resources.iter();
    let resources = resources.map(|it| resource(it, pool.details.get(&it.id)));
    let rows = rows(pool).into_iter();
    let rows = rows.map(|row| {
        let waiting = pool.waiting.get(&row.name).copied().unwrap_or_default();
        capability(row, &pool.view, waiting)
    });
    let grants = pool.grants.0.iter().filter(|_| is_operator);
    pb::Pool {
        summary: Some(summary(pool.view.summary())),
        resources: resources.collect(),
        capabilities: rows.collect(),
        agent_grants: grants
            .map(|(name, grant)| agent_grant(name, grant))
            .collect(),
    }
}

/// All capabilities: those of the settings, also without a resource, and then others that a resource has or an attempt
/// waits for, by name.
fn rows(pool: &PoolSnapshot) -> Vec<CapabilityRow> {
    let view = &pool.view;
    let of_table = view.table.iter().map(|it| it.name.as_str());
    let of_table: Vec<&str> = of_table.collect();
    let having = view.resources.iter();
    let having = having.flat_map(|it| it.capabilities.keys());
    let others = having.chain(pool.waiting.keys()).map(String::as_str);
    let others: BTreeSet<&str> = others.filter(|it| !of_table.contains(it)).collect();
    let names = of_table.into_iter().chain(others);
    names.map(|name| view.row(name, 0)).collect()
}

/// The counts.
pub(super) fn summary(summary: PoolSummary) -> pb::PoolSummary {
    pb::PoolSummary {
        total: summary.total,
        available: summary.available,
        busy: summary.busy,
        error: summary.error,
    }
}

/// Ids as the contract has them.
pub(super) fn ids(ids: &[Arc<str>]) -> Vec<String> {
    ids.iter().map(|id| id.as_ref().to_owned()).collect()
}

fn capability(row: CapabilityRow, view: &PoolView, waiting: u32) -> pb::PoolCapability {
    pb::PoolCapability {
        available: row.available,
        total: row.total,
        available_resources: ids(&row.available_ids),
        tools: view.tools_of(&row.name),
        waiting,
        name: row.name,
    }
}

fn resource(resource: &ResourceView, details: Option<&ResourceDetails>) -> pb::Resource {
    let state = match resource.state {
        ResourceState::Available => pb::ResourceState::Available,
        ResourceState::Busy => pb::ResourceState::Busy,
        ResourceState::Error => pb::ResourceState::Error,
        ResourceState::Draining => pb::ResourceState::Draining,
    };
    let capabilities = resource.capabilities.iter();
    let capabilities = capabilities.map(|(name, &level)| pb::ResourceCapability {
        name: name.clone(),
        level,
    });
    let mut message = pb::Resource {
        id: resource.id.as_ref().to_owned(),
        kind: resource.kind.clone(),
        capabilities: capabilities.collect(),
        labels: resource.labels.clone(),
        state: state.into(),
        slots: resource.slots,
        free_slots: resource.free,
        ..pb::Resource::default()
    };
    if let Some(details) = details {
        message.tools = patterns(details);
        message.revoked_tools = details.tools.revoked.iter().cloned().collect();
        if let Some(Registered {
            version,
            changed_unix_ms,
        }) = details.registered
        {
            message.version = version;
            message.change_time = Some(timestamp(changed_unix_ms));
        }
    }
    message
}

/// What an executor may use. One without patterns may use all, so a grant adds nothing to it.
fn patterns(details: &ResourceDetails) -> Vec<String> {
    match details.tools.patterns() {
        [] => Vec::new(),
        own => own.iter().chain(&details.tools.granted).cloned().collect(),
    }
}

fn agent_grant(name: &str, grant: &Grant) -> pb::AgentGrant {
    pb::AgentGrant {
        agent: name.to_owned(),
        granted: grant.granted.iter().cloned().collect(),
        revoked: grant.revoked.iter().cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cairn_engine::pool::{CapabilityTools, EXECUTOR, Grants, ResourceTools};
    use std::collections::BTreeMap;

    fn executor(id: &str, state: ResourceState) -> ResourceView {
        ResourceView {
            id: Arc::from(id),
            kind: EXECUTOR.to_owned(),
            state,
            slots: 4,
            free: 3,
            capabilities: Arc::new(BTreeMap::from([
                ("file_ops".to_owned(), 1),
                ("gpu".to_owned(), 5),
            ])),
            labels: BTreeMap::new(),
            tools: Arc::default(),
        }
    }

    fn row(name: &str) -> CapabilityTools {
        CapabilityTools {
            name: name.to_owned(),
            tools: vec![format!("{name}_tool")],
            level: 1,
        }
    }

    fn set(tools: &[&str]) -> BTreeSet<String> {
        tools.iter().map(|&tool| tool.to_owned()).collect()
    }

    fn snapshot() -> PoolSnapshot {
        let grant = Grant {
            granted: set(&["web_search"]),
            revoked: set(&["edit_file"]),
        };
        let details = ResourceDetails {
            tools: ResourceTools::new(
                vec!["read_*".to_owned()],
                set(&["web_search"]),
                set(&["read_result"]),
            ),
            registered: Some(Registered {
                version: 7,
                changed_unix_ms: 1_000,
            }),
        };
        PoolSnapshot {
            view: Arc::new(PoolView {
                resources: vec![
                    executor("a", ResourceState::Available),
                    executor("b", ResourceState::Error),
                ],
                table: Arc::from([row("web_search"), row("file_ops")]),
            }),
            details: BTreeMap::from([(Arc::from("a"), details)]),
            waiting: BTreeMap::from([("web_search".to_owned(), 2), ("lidar".to_owned(), 1)]),
            grants: Arc::new(Grants(BTreeMap::from([("reviewer".to_owned(), grant)]))),
        }
    }

    #[test]
    fn capabilities_of_the_settings_come_first_and_stay_without_a_resource() {
        let shown = pool(&snapshot(), true).capabilities;
        let counts = shown
            .iter()
            .map(|it| (it.name.as_str(), it.available, it.total, it.waiting));
        let expected = [
            ("web_search", 0, 0, 2),
            ("file_ops", 1, 2, 0),
            ("gpu", 1, 2, 0),
            ("lidar", 0, 0, 1),
        ];
        assert_eq!(counts.collect::<Vec<_>>(), expected);
        assert_eq!(shown[0].tools, ["web_search_tool"]);
        assert_eq!(shown[1].available_resources, ["a"]);
        assert!(shown[2].tools.is_empty());
    }

    #[test]
    fn a_resource_is_shown_with_its_registration_and_its_tools() {
        let shown = pool(&snapshot(), true).resources;
        let [first, second] = shown.as_slice() else {
            panic!("{shown:?}");
        };
        assert_eq!(
            (first.version, first.change_time),
            (7, Some(timestamp(1_000)))
        );
        assert_eq!(first.tools, ["read_*", "web_search"]);
        assert_eq!(first.revoked_tools, ["read_result"]);
        assert_eq!((first.slots, first.free_slots), (4, 3));
        assert_eq!(second.state(), pb::ResourceState::Error);
        assert_eq!((second.version, second.change_time), (0, None));
    }

    #[test]
    fn grants_to_agents_are_for_the_operator() {
        let shown = pool(&snapshot(), true).agent_grants;
        assert_eq!(shown.len(), 1);
        assert_eq!(shown[0].agent, "reviewer");
        assert_eq!(shown[0].granted, ["web_search"]);
        assert!(pool(&snapshot(), false).agent_grants.is_empty());
    }
}
