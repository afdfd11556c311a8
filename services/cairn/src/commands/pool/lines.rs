//! The pool as text: tables, and what changed between two moments.

use crate::ui::table::{Column, Table, cut};
use cairn_proto::api::{
    AgentGrant, Pool, PoolCapability, PoolSummary, Resource, ResourceCapability, ResourceState,
};
use cairn_rpc::text::clip;
use std::collections::BTreeMap;

/// Most bytes of an id or a name in a line.
const NAME: usize = 128;
/// Most labels, and most revoked tools, of a line.
const NOTES: usize = 3;

/// The whole pool: the counts, the resources, the capabilities, and what was granted to agents.
pub(super) fn of(pool: &Pool, width: Option<usize>) -> Vec<String> {
    let summary = pool.summary.unwrap_or_default();
    let counts = summary_line(summary);
    let mut lines = vec![width.map_or_else(|| counts.clone(), |width| cut(&counts, width))];
    if !pool.resources.is_empty() {
        lines.push(String::new());
        lines.extend(resources(&pool.resources).lines(width));
    }
    if !pool.capabilities.is_empty() {
        lines.push(String::new());
        lines.extend(capabilities(&pool.capabilities).lines(width));
    }
    if !pool.agent_grants.is_empty() {
        lines.push(String::new());
        lines.extend(grants(&pool.agent_grants).lines(width));
    }
    lines
}

fn summary_line(summary: PoolSummary) -> String {
    let PoolSummary {
        total,
        available,
        busy,
        error,
    } = summary;
    let resources = match total {
        1 => "1 resource".to_owned(),
        total => format!("{total} resources"),
    };
    format!("{resources}: {available} available, {busy} busy, {error} in error")
}

fn resources(resources: &[Resource]) -> Table {
    let mut columns = vec![
        Column::Left("RESOURCE"),
        Column::Left("KIND"),
        Column::Left("STATE"),
        Column::Right("FREE"),
        Column::Left("CAPABILITIES"),
    ];
    let has_notes = resources.iter().any(|it| !notes(it).is_empty());
    if has_notes {
        columns.push(Column::Left("NOTES"));
    }
    let mut table = Table::new(columns);
    for resource in resources {
        let cells = [
            resource.id.clone(),
            resource.kind.clone(),
            state(resource).to_owned(),
            slots(resource),
            names(&resource.capabilities),
        ];
        let notes = has_notes.then(|| notes(resource));
        table.cells(cells.into_iter().chain(notes));
    }
    table
}

/// Its first labels and the first tools that were revoked: `rack=7, without edit_file`.
fn notes(resource: &Resource) -> String {
    let labels = resource.labels.iter();
    let labels = labels.map(|(name, value)| format!("{name}={value}"));
    let revoked = resource.revoked_tools.iter();
    let revoked = revoked.map(|tool| format!("without {tool}"));
    let parts = [short(labels.collect()), short(revoked.collect())];
    parts.concat().join(", ")
}

/// The first of these notes, and how many more there are.
fn short(mut notes: Vec<String>) -> Vec<String> {
    let more = notes.len().saturating_sub(NOTES);
    if more > 0 {
        notes.truncate(NOTES);
        notes.push(format!("and {more} more"));
    }
    notes
}

const fn state_name(state: ResourceState) -> &'static str {
    match state {
        ResourceState::Unspecified => "?",
        ResourceState::Available => "available",
        ResourceState::Busy => "busy",
        ResourceState::Error => "error",
        ResourceState::Draining => "draining",
    }
}

fn state(resource: &Resource) -> &'static str {
    state_name(resource.state())
}

/// `3/4`; nothing for a resource that takes no attempts.
fn slots(resource: &Resource) -> String {
    match resource.slots {
        0 => String::new(),
        slots => format!("{}/{slots}", resource.free_slots),
    }
}

/// `file_ops, web_search (level 5)`.
fn names(capabilities: &[ResourceCapability]) -> String {
    let shown = capabilities
        .iter()
        .map(|capability| match capability.level {
            ..=1 => capability.name.clone(),
            level => format!("{} (level {level})", capability.name),
        });
    shown.collect::<Vec<_>>().join(", ")
}

fn capabilities(capabilities: &[PoolCapability]) -> Table {
    let columns = [
        Column::Left("CAPABILITY"),
        Column::Right("AVAILABLE"),
        Column::Right("WAITING"),
        Column::Left("RESOURCES"),
    ];
    let mut table = Table::new(columns);
    for capability in capabilities {
        let waiting = match capability.waiting {
            0 => String::new(),
            waiting => waiting.to_string(),
        };
        table.row([
            &capability.name,
            &counts(capability),
            &waiting,
            &having(capability),
        ]);
    }
    table
}

fn counts(capability: &PoolCapability) -> String {
    format!("{}/{}", capability.available, capability.total)
}

/// The available resources that have it; without any resource, the tools that give it.
fn having(capability: &PoolCapability) -> String {
    match (capability.total, capability.tools.as_slice()) {
        (0, []) => "none".to_owned(),
        (0, tools) => format!("none; it takes {}", tools.join(", ")),
        _ => capability.available_resources.join(", "),
    }
}

fn grants(grants: &[AgentGrant]) -> Table {
    let mut table = Table::new(["AGENT", "GRANTED", "REVOKED"].map(Column::Left));
    for grant in grants {
        let (granted, revoked) = (grant.granted.join(", "), grant.revoked.join(", "));
        table.row([&grant.agent, &granted, &revoked]);
    }
    table
}

/// What differs between two moments, a line for each resource, capability and agent.
pub(super) fn changes(before: &Pool, after: &Pool) -> Vec<String> {
    let mut lines = resource_changes(&before.resources, &after.resources);
    lines.extend(capability_changes(
        &before.capabilities,
        &after.capabilities,
    ));
    lines.extend(grant_changes(&before.agent_grants, &after.agent_grants));
    lines
}

fn resource_changes(before: &[Resource], after: &[Resource]) -> Vec<String> {
    let known: BTreeMap<&str, &Resource> = before.iter().map(|it| (&*it.id, it)).collect();
    let is_there = |id: &str| after.iter().any(|it| it.id == id);
    let gone = before.iter().filter(|it| !is_there(&it.id));
    let gone = gone.map(|it| format!("{} left", clip(&it.id, NAME)));
    let changed = after.iter().filter_map(|now| match known.get(&*now.id) {
        None => Some(format!(
            "{} joined: {}",
            clip(&now.id, NAME),
            described(now)
        )),
        Some(was) if *was != now => Some(format!("{}: {}", clip(&now.id, NAME), described(now))),
        Some(_) => None,
    });
    gone.chain(changed).collect()
}

/// `executor, busy, 0/4 free, file_ops`.
fn described(resource: &Resource) -> String {
    let mut parts = vec![clip(&resource.kind, NAME), state(resource).to_owned()];
    if resource.slots > 0 {
        parts.push(format!("{} free", slots(resource)));
    }
    if !resource.capabilities.is_empty() {
        parts.push(clip(&names(&resource.capabilities), 4 * NAME));
    }
    let notes = notes(resource);
    if !notes.is_empty() {
        parts.push(clip(&notes, 4 * NAME));
    }
    parts.join(", ")
}

fn capability_changes(before: &[PoolCapability], after: &[PoolCapability]) -> Vec<String> {
    let counted = |it: &PoolCapability| (it.available, it.total, it.waiting);
    let known: BTreeMap<&str, _> = before.iter().map(|it| (&*it.name, counted(it))).collect();
    let changed = after.iter().filter(|now| {
        let was = known.get(&*now.name).copied().unwrap_or_default();
        was != counted(now)
    });
    let line = |now: &PoolCapability| {
        let waiting = match now.waiting {
            0 => String::new(),
            1 => ", 1 step waits".to_owned(),
            waiting => format!(", {waiting} steps wait"),
        };
        format!(
            "{}: {} available{waiting}",
            clip(&now.name, NAME),
            counts(now)
        )
    };
    changed.map(line).collect()
}

fn grant_changes(before: &[AgentGrant], after: &[AgentGrant]) -> Vec<String> {
    let changed = after.iter().filter(|now| !before.contains(now));
    let line = |now: &AgentGrant| {
        let list = |tools: &[String]| match tools {
            [] => "nothing".to_owned(),
            tools => clip(&tools.join(", "), 4 * NAME),
        };
        format!(
            "agent {}: granted {}, revoked {}",
            clip(&now.agent, NAME),
            list(&now.granted),
            list(&now.revoked)
        )
    };
    changed.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|&text| text.to_owned()).collect()
    }

    fn resource(id: &str, kind: &str, free: u32, slots: u32, has: &[(&str, u32)]) -> Resource {
        let state = match (free, slots) {
            (0, 1..) => ResourceState::Busy,
            _ => ResourceState::Available,
        };
        let capabilities = has.iter().map(|&(name, level)| ResourceCapability {
            name: name.to_owned(),
            level,
        });
        Resource {
            id: id.to_owned(),
            kind: kind.to_owned(),
            capabilities: capabilities.collect(),
            state: state.into(),
            slots,
            free_slots: free,
            ..Resource::default()
        }
    }

    fn capability(name: &str, available: &[&str], total: u32, waiting: u32) -> PoolCapability {
        PoolCapability {
            name: name.to_owned(),
            available: u32::try_from(available.len()).expect("few"),
            total,
            available_resources: texts(available),
            tools: texts(&["a_tool"]),
            waiting,
        }
    }

    fn pool() -> Pool {
        Pool {
            summary: Some(PoolSummary {
                total: 3,
                available: 2,
                busy: 1,
                error: 0,
            }),
            resources: vec![
                resource("executor-general", "executor", 3, 4, &[("file_ops", 1)]),
                resource("github", "mcp_server", 0, 0, &[]),
                resource("gpu\n-1", "gpu", 0, 1, &[("gpu", 5), ("region:eu", 1)]),
            ],
            capabilities: vec![
                capability("web_search", &[], 0, 2),
                capability("file_ops", &["executor-general"], 1, 0),
                capability("gpu", &[], 1, 0),
            ],
            agent_grants: vec![AgentGrant {
                agent: "reviewer".to_owned(),
                granted: texts(&["web_search"]),
                revoked: Vec::new(),
            }],
        }
    }

    #[test]
    fn the_pool_is_shown_in_tables() {
        let empty = of(&Pool::default(), None).join("\n");
        let full = of(&pool(), Some(70)).join("\n");
        insta::assert_snapshot!("pool", format!("--- full\n{full}\n--- empty\n{empty}\n"));
    }

    #[test]
    fn labels_and_revoked_tools_are_notes() {
        let mut noted = pool();
        assert!(!of(&noted, None).join("\n").contains("NOTES"));
        let general = &mut noted.resources[0];
        general.labels.insert("rack".to_owned(), "7".to_owned());
        general.revoked_tools = texts(&["a", "b", "c", "d", "e"]);
        let lines = of(&noted, None);
        assert!(lines[2].ends_with("  NOTES"), "{lines:#?}");
        let expected = "  rack=7, without a, without b, without c, and 2 more";
        assert!(lines[3].ends_with(expected), "{lines:#?}");
        let changed = changes(&pool(), &noted);
        assert!(changed[0].ends_with(expected.trim_start()));
    }

    #[test]
    fn each_change_is_a_line() {
        let mut after = pool();
        assert_eq!(changes(&pool(), &after), Vec::<String>::new());
        after.resources.remove(1);
        after.resources[0] = resource("executor-general", "executor", 0, 4, &[("file_ops", 1)]);
        after.resources.push(resource("lab", "bench", 1, 1, &[]));
        after.capabilities[0].waiting = 1;
        after.capabilities[1] = capability("file_ops", &[], 1, 3);
        after.agent_grants[0].revoked = texts(&["edit_file"]);
        let expected = [
            "github left",
            "executor-general: executor, busy, 0/4 free, file_ops",
            "lab joined: bench, available, 1/1 free",
            "web_search: 0/0 available, 1 step waits",
            "file_ops: 0/1 available, 3 steps wait",
            "agent reviewer: granted web_search, revoked edit_file",
        ];
        assert_eq!(changes(&pool(), &after), expected);
    }
}
