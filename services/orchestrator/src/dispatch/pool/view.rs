//! The rows of the pool as decisions see it.

use super::{Document, Pool, Server};
use crate::dispatch::queue::{MemberId, Members};
use cairn_engine::pool::{EXECUTOR, MCP_SERVER, PoolView, ResourceState, ResourceView};
use std::collections::BTreeMap;
use std::sync::Arc;

/// More changed rows than these are cheaper to make together with all others.
const FEW: usize = 64;

impl Pool {
    /// The resources as they are now. Rows that have not changed are not made again.
    pub(in crate::dispatch) fn view(&mut self, members: &mut Members) -> Arc<PoolView> {
        self.touched.extend(members.take_touched());
        if !Arc::ptr_eq(&self.view.table, &self.tools.table) {
            Arc::make_mut(&mut self.view).table = self.tools.table.clone();
        }
        let touched = std::mem::take(&mut self.touched);
        match touched.len() > FEW {
            true => self.make_all(members),
            false => touched.iter().for_each(|id| self.refresh(id, members)),
        }
        self.view.clone()
    }

    fn make_all(&mut self, members: &Members) {
        let live = self.executors.keys().chain(self.servers.keys());
        let ids = live.chain(self.documents.keys());
        let rows = ids.filter_map(|id| Some((id.clone(), self.row(id, members)?)));
        let rows: BTreeMap<Arc<str>, ResourceView> = rows.collect();
        let resources = rows.into_values().collect();
        self.view = Arc::new(PoolView {
            resources,
            table: self.tools.table.clone(),
        });
    }

    fn refresh(&mut self, id: &Arc<str>, members: &Members) {
        let row = self.row(id, members);
        let found = self.view.resources.binary_search_by(|it| it.id.cmp(id));
        let known = found.ok().and_then(|at| self.view.resources.get(at));
        if known == row.as_ref() {
            return;
        }
        let resources = &mut Arc::make_mut(&mut self.view).resources;
        match (found, row) {
            (Ok(at), Some(row)) => resources[at] = row,
            (Ok(at), None) => {
                resources.remove(at);
            }
            (Err(at), Some(row)) => resources.insert(at, row),
            (Err(_), None) => {}
        }
    }

    /// A resource as it is now; none if there is none of that id.
    fn row(&self, id: &Arc<str>, members: &Members) -> Option<ResourceView> {
        let document = self.documents.get(id);
        if let Some(address) = self.executors.get(id) {
            return self.executor_row(id, address, document, members);
        }
        if let Some(server) = self.servers.get(id) {
            return Some(self.server_row(id, server, document));
        }
        let document = document.filter(|document| document.is_by_itself())?;
        Some(registered_row(id, document, members))
    }

    fn executor_row(
        &self,
        id: &Arc<str>,
        address: &MemberId,
        document: Option<&Document>,
        members: &Members,
    ) -> Option<ResourceView> {
        let member = members.get(address)?;
        let own = self.own.get(address);
        let described = member.described();
        Some(ResourceView {
            id: id.clone(),
            kind: EXECUTOR.to_owned(),
            state: member.state(),
            slots: member.slots,
            free: member.available(),
            capabilities: described.capabilities.clone(),
            labels: labels(own.map(|own| &own.labels), document),
            tools: described.tools.clone(),
        })
    }

    fn server_row(
        &self,
        id: &Arc<str>,
        server: &Server,
        document: Option<&Document>,
    ) -> ResourceView {
        let mut capabilities = server.capabilities.clone();
        if document.is_some() {
            self.add_registered(id, Arc::make_mut(&mut capabilities));
        }
        ResourceView {
            id: id.clone(),
            kind: MCP_SERVER.to_owned(),
            state: match server.is_ready {
                true => ResourceState::Available,
                false => ResourceState::Error,
            },
            slots: 0,
            free: 0,
            capabilities,
            labels: labels(None, document),
            tools: Arc::default(),
        }
    }
}

fn registered_row(id: &Arc<str>, document: &Document, members: &Members) -> ResourceView {
    let free = members.free_of_extra(id);
    ResourceView {
        id: id.clone(),
        kind: document.kind.clone(),
        state: match free {
            0 => ResourceState::Busy,
            _ => ResourceState::Available,
        },
        slots: document.slots.max(1),
        free,
        capabilities: document.capabilities.clone(),
        labels: document.labels.clone(),
        tools: Arc::default(),
    }
}

/// The labels of a resource and those that are registered of it. Of two with one name, the registered one counts.
fn labels(
    own: Option<&BTreeMap<String, String>>,
    document: Option<&Document>,
) -> BTreeMap<String, String> {
    let mut labels = own.cloned().unwrap_or_default();
    let registered = document.into_iter().flat_map(|it| &it.labels);
    labels.extend(registered.map(|(name, value)| (name.clone(), value.clone())));
    labels
}
