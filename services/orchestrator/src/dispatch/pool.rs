//! The pool: which resources there are, and what they can do.
//!
//! Executors and MCP servers are live. Registrations and grants are documents of memory, which every orchestrator
//! follows.

mod documents;
mod view;

pub(super) use documents::follow;
pub(crate) use documents::{OF_AGENT, OF_EXECUTOR};

use super::queue::{Described, Extra, MemberId, Members};
use cairn_engine::decide::STATE_TOOLS;
use cairn_engine::pool::{
    Capabilities, CapabilityTools, EXECUTOR, Grant, Grants, MCP_SERVER, PoolView, ResourceTools,
};
use cairn_proto::executor::WatchStatusResponse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the catalogue says of the pool.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PoolTools {
    /// The capabilities of the settings, in their order.
    pub(super) table: Arc<[CapabilityTools]>,
    /// Those of them whose tools are all in the catalogue.
    pub(super) usable: Vec<CapabilityTools>,
    pub(super) servers: Vec<Server>,
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) is_ready: bool,
    /// The capabilities of which it has all tools.
    pub(super) capabilities: Arc<Capabilities>,
}

/// What an executor reports of itself, beside its slots.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Own {
    name: String,
    patterns: Vec<String>,
    capabilities: Capabilities,
    labels: BTreeMap<String, String>,
    /// It has never reported: nothing is known but its address.
    is_unknown: bool,
}

impl From<&WatchStatusResponse> for Own {
    fn from(status: &WatchStatusResponse) -> Self {
        let labels = status.labels.iter();
        let mut capabilities = Capabilities::new();
        for declared in &status.capabilities {
            add(&mut capabilities, &declared.name, declared.level);
        }
        Self {
            name: status.name.clone(),
            patterns: status.tools.clone(),
            capabilities,
            labels: labels
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            is_unknown: false,
        }
    }
}

/// What an operator registered of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Document {
    kind: String,
    capabilities: Arc<Capabilities>,
    labels: BTreeMap<String, String>,
    slots: u32,
    registered: Registered,
}

impl Document {
    /// It is a resource where there is no executor and no server of its id.
    fn is_by_itself(&self) -> bool {
        !["", EXECUTOR, MCP_SERVER].contains(&self.kind.as_str())
    }
}

/// When something was registered of a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Registered {
    /// The counter of registrations then.
    pub(crate) version: u64,
    /// By the store's clock, in milliseconds since 1970.
    pub(crate) changed_unix_ms: i64,
}

/// What a resource has beside its row in the view.
#[derive(Debug, Clone)]
pub(crate) struct ResourceDetails {
    /// The tools that it may use; of executors only.
    pub(crate) tools: ResourceTools,
    /// None if nothing is registered of it.
    pub(crate) registered: Option<Registered>,
}

/// The pool at a moment.
#[derive(Debug, Clone)]
pub(crate) struct PoolSnapshot {
    /// The resources.
    pub(crate) view: Arc<PoolView>,
    /// More of executors and of what is registered, by id.
    pub(crate) details: BTreeMap<Arc<str>, ResourceDetails>,
    /// Attempts of this process that wait for a capability, by its name.
    pub(crate) waiting: BTreeMap<String, u32>,
    /// What was granted to agents, and revoked.
    pub(crate) grants: Arc<Grants>,
}

/// What there is to know of the resources beside their slots.
#[derive(Debug, Default)]
pub(super) struct Pool {
    tools: Arc<PoolTools>,
    /// What executors report, in the order of their addresses.
    own: BTreeMap<MemberId, Own>,
    /// The executors by their ids in the pool.
    executors: BTreeMap<Arc<str>, MemberId>,
    /// The servers by their ids in the pool.
    servers: BTreeMap<Arc<str>, Server>,
    documents: BTreeMap<Arc<str>, Document>,
    /// Grants to executors, by the ids of these.
    granted: BTreeMap<String, Grant>,
    agents: Arc<Grants>,
    view: Arc<PoolView>,
    /// Resources whose rows in the view are out of date.
    touched: BTreeSet<Arc<str>>,
    /// All registrations were listed once.
    pub(super) has_resources: bool,
    /// All grants were listed once.
    pub(super) has_grants: bool,
}

impl Pool {
    /// What was granted to agents.
    pub(super) fn grants(&self) -> &Arc<Grants> {
        &self.agents
    }

    /// Takes in what the catalogue says. Returns whether it differs.
    pub(super) fn set_tools(&mut self, tools: &Arc<PoolTools>, members: &mut Members) -> bool {
        if self.tools == *tools {
            return false;
        }
        self.tools = tools.clone();
        self.name_all(members, |_| true);
        true
    }

    /// Takes in what an executor reports. Returns whether it differs.
    pub(super) fn report(&mut self, id: &MemberId, own: Own, members: &mut Members) -> bool {
        if self.own.get(id) == Some(&own) {
            return false;
        }
        self.own.insert(id.clone(), own);
        self.name_all(members, |member| member == id);
        true
    }

    /// An executor cannot be reached. Returns whether it is new to the pool.
    pub(super) fn miss(&mut self, id: &MemberId, members: &mut Members) -> bool {
        if self.own.contains_key(id) {
            return false;
        }
        let unknown = Own {
            is_unknown: true,
            ..Own::default()
        };
        self.report(id, unknown, members)
    }

    /// An executor is no member any more.
    pub(super) fn leave(&mut self, id: &str, members: &mut Members) {
        self.own.remove(id);
        self.name_all(members, |_| false);
    }

    /// Takes in what is registered of a resource, none if it was removed. Returns whether it differs.
    fn register(
        &mut self,
        id: &Arc<str>,
        document: Option<Document>,
        members: &mut Members,
    ) -> bool {
        let is_same = self.documents.get(id) == document.as_ref();
        if is_same {
            return false;
        }
        match document {
            Some(document) => self.documents.insert(id.clone(), document),
            None => self.documents.remove(id),
        };
        self.touched.insert(id.clone());
        match self.executors.get(id).cloned() {
            Some(member) => self.describe(id, &member, members),
            None => self.give_extra(id, members),
        }
        true
    }

    /// Takes in what is granted to an executor, none if it was removed. Returns whether it differs.
    fn grant_executor(&mut self, id: &str, grant: Option<Grant>, members: &mut Members) -> bool {
        if self.granted.get(id) == grant.as_ref() {
            return false;
        }
        match grant {
            Some(grant) => self.granted.insert(id.to_owned(), grant),
            None => self.granted.remove(id),
        };
        if let Some((id, member)) = self.executors.get_key_value(id) {
            let (id, member) = (id.clone(), member.clone());
            self.describe(&id, &member, members);
        }
        true
    }

    /// Takes in what is granted to an agent, none if it was removed. Returns whether it differs.
    fn grant_agent(&mut self, name: &str, grant: Option<Grant>) -> bool {
        if self.agents.0.get(name) == grant.as_ref() {
            return false;
        }
        let agents = &mut Arc::make_mut(&mut self.agents).0;
        match grant {
            Some(grant) => agents.insert(name.to_owned(), grant),
            None => agents.remove(name),
        };
        true
    }

    /// Names the executors and the servers. Describes anew the executors whose id has changed, or whose report has.
    fn name_all(&mut self, members: &mut Members, is_other: impl Fn(&MemberId) -> bool) {
        let (before, ids) = (self.executors.clone(), self.ids());
        self.name_executors();
        self.name_servers();
        for (id, member) in self.executors.clone() {
            if is_other(&member) || before.get(&id) != Some(&member) {
                self.describe(&id, &member, members);
            }
        }
        let now = self.ids();
        // What is registered of them is a resource by itself only while they are not there.
        for id in ids.symmetric_difference(&now) {
            self.give_extra(id, members);
            self.touched.insert(id.clone());
        }
        self.touched.extend(self.servers.keys().cloned());
    }

    fn ids(&self) -> BTreeSet<Arc<str>> {
        let ids = self.executors.keys().chain(self.servers.keys());
        ids.cloned().collect()
    }

    /// An executor keeps its id while it is a member and reports the same name.
    fn name_executors(&mut self) {
        let before = std::mem::take(&mut self.executors);
        let keeps = |(id, member): &(Arc<str>, MemberId)| {
            self.own.get(member).is_some_and(|own| {
                let wanted = wanted_id(own, member);
                **id == *wanted || **id == *second_id(&wanted, member)
            })
        };
        let kept: BTreeMap<_, _> = before.into_iter().filter(keeps).collect();
        let named: BTreeSet<MemberId> = kept.values().cloned().collect();
        self.executors = kept;
        for (member, own) in &self.own {
            if named.contains(member) {
                continue;
            }
            let wanted = wanted_id(own, member);
            let id = match self.executors.contains_key(wanted.as_str()) {
                true => second_id(&wanted, member),
                false => wanted,
            };
            self.executors.insert(id.into(), member.clone());
        }
    }

    fn name_servers(&mut self) {
        let servers = self.tools.servers.iter().map(|server| {
            let is_taken = self.executors.contains_key(server.name.as_str());
            let id = match is_taken {
                true => second_id(&server.name, MCP_SERVER),
                false => server.name.clone(),
            };
            (Arc::from(id), server.clone())
        });
        self.servers = servers.collect();
    }

    /// Finds what an executor may use and can do.
    fn describe(&mut self, id: &Arc<str>, member: &MemberId, members: &mut Members) {
        let Some(own) = self.own.get(member) else {
            return;
        };
        let grant = self.granted.get(&**id).cloned().unwrap_or_default();
        let before = members.get(member).map(|member| member.described().clone());
        let is_same = |tools: &ResourceTools| {
            tools.patterns() == own.patterns
                && tools.granted == grant.granted
                && tools.revoked == grant.revoked
        };
        let kept = before.filter(|before| is_same(&before.tools));
        let tools = kept.map(|before| before.tools).unwrap_or_else(|| {
            let patterns = own.patterns.clone();
            Arc::new(ResourceTools::new(patterns, grant.granted, grant.revoked))
        });
        let capabilities = match own.is_unknown {
            true => Capabilities::new(),
            false => self.capabilities_of(id, own, &tools),
        };
        let described = Described {
            id: id.clone(),
            tools,
            capabilities: Arc::new(capabilities),
        };
        members.describe(member, described);
        self.touched.insert(id.clone());
    }

    /// What its tools give an executor, what it declares, and what is registered of it.
    fn capabilities_of(&self, id: &str, own: &Own, tools: &ResourceTools) -> Capabilities {
        let mut capabilities = own.capabilities.clone();
        for row in &self.tools.usable {
            if row.tools.iter().all(|tool| may_use(tools, tool)) {
                add(&mut capabilities, &row.name, row.level);
            }
        }
        self.add_registered(id, &mut capabilities);
        capabilities
    }

    fn add_registered(&self, id: &str, capabilities: &mut Capabilities) {
        let document = self.documents.get(id).into_iter();
        for (name, &level) in document.flat_map(|it| it.capabilities.iter()) {
            add(capabilities, name, level);
        }
    }

    /// A registered resource takes attempts unless an executor or a server has its id.
    fn give_extra(&self, id: &Arc<str>, members: &mut Members) {
        let is_live = self.executors.contains_key(id) || self.servers.contains_key(id);
        let document = self.documents.get(id);
        let document = document.filter(|it| !is_live && it.is_by_itself());
        let extra = document.map(|document| Extra {
            slots: document.slots.max(1),
            capabilities: document.capabilities.clone(),
        });
        members.set_extra(id, extra);
    }

    /// The pool as it is now, with so many attempts that wait by capability.
    pub(super) fn snapshot(
        &mut self,
        members: &mut Members,
        waiting: BTreeMap<String, u32>,
    ) -> PoolSnapshot {
        let registered = |id: &str| self.documents.get(id).map(|it| it.registered);
        let mut details = BTreeMap::new();
        for (id, member) in &self.executors {
            let member = members.get(member);
            let tools = member.map(|it| ResourceTools::clone(&it.described().tools));
            let of_executor = ResourceDetails {
                tools: tools.unwrap_or_default(),
                registered: registered(id),
            };
            details.insert(id.clone(), of_executor);
        }
        for (id, document) in &self.documents {
            details
                .entry(id.clone())
                .or_insert_with(|| ResourceDetails {
                    tools: ResourceTools::default(),
                    registered: Some(document.registered),
                });
        }
        PoolSnapshot {
            view: self.view(members),
            details,
            waiting,
            grants: self.agents.clone(),
        }
    }
}

/// The id that an executor would have alone.
fn wanted_id(own: &Own, member: &str) -> String {
    match (own.name.as_str(), member) {
        // The one of this process.
        ("", "") => EXECUTOR.to_owned(),
        ("", address) => address.to_owned(),
        (name, _) => name.to_owned(),
    }
}

/// The id of a resource whose name another one has.
fn second_id(name: &str, place: &str) -> String {
    format!("{name}@{place}")
}

/// State tools belong to the session, and no pattern of a resource is about them.
fn may_use(tools: &ResourceTools, tool: &str) -> bool {
    STATE_TOOLS.iter().any(|it| it.name == tool) || tools.allows(tool)
}

/// Of two levels the higher one counts; 0 stands for 1.
fn add(capabilities: &mut Capabilities, name: &str, level: u32) {
    let has = capabilities.entry(name.to_owned()).or_insert(1);
    *has = level.max(*has);
}

#[cfg(test)]
mod tests;
