use super::*;
use crate::dispatch::queue::Reported;
use cairn_engine::pool::{ResourceState, ResourceView};

fn own(name: &str, patterns: &[&str]) -> Own {
    Own {
        name: name.to_owned(),
        patterns: patterns.iter().map(|&it| it.to_owned()).collect(),
        ..Own::default()
    }
}

fn row(name: &str, tools: &[&str]) -> CapabilityTools {
    CapabilityTools {
        name: name.to_owned(),
        tools: tools.iter().map(|&tool| tool.to_owned()).collect(),
        level: 2,
    }
}

fn document(kind: &str, capability: &str) -> Document {
    Document {
        kind: kind.to_owned(),
        capabilities: Arc::new(Capabilities::from([(capability.to_owned(), 5)])),
        labels: BTreeMap::from([("rack".to_owned(), "7".to_owned())]),
        slots: 3,
        registered: Registered {
            version: 4,
            changed_unix_ms: 1_000,
        },
    }
}

#[derive(Default)]
struct World {
    pool: Pool,
    members: Members,
}

impl World {
    fn new() -> Self {
        let mut world = Self::default();
        let rows = [
            row("file_ops", &["read_file", "write_file"]),
            row("progress", &["step"]),
        ];
        let tools = PoolTools {
            table: rows.clone().into(),
            usable: rows.into(),
            servers: vec![Server {
                name: "web".to_owned(),
                is_ready: true,
                capabilities: Arc::new(Capabilities::from([("search".to_owned(), 1)])),
            }],
        };
        assert!(world.pool.set_tools(&Arc::new(tools), &mut world.members));
        world
    }

    fn report(&mut self, address: &str, own: Own) {
        let id = MemberId::from(address);
        let reported = Reported {
            slots: 4,
            free: 2,
            ..Reported::default()
        };
        self.members.report(&id, reported);
        self.pool.report(&id, own, &mut self.members);
    }

    fn leave(&mut self, address: &str) {
        self.members.remove(address);
        self.pool.leave(address, &mut self.members);
    }

    fn register(&mut self, id: &str, document: Option<Document>) -> bool {
        let id = Arc::from(id);
        self.pool.register(&id, document, &mut self.members)
    }

    fn grant(&mut self, id: &str, granted: &[&str], revoked: &[&str]) -> bool {
        let set = |tools: &[&str]| tools.iter().map(|&tool| tool.to_owned()).collect();
        let grant = Grant {
            granted: set(granted),
            revoked: set(revoked),
        };
        self.pool.grant_executor(id, Some(grant), &mut self.members)
    }

    /// The view, which is the same as one that is made from the beginning.
    fn view(&mut self) -> Arc<PoolView> {
        let view = self.pool.view(&mut self.members);
        let ids = self.pool.ids().into_iter();
        let all = ids.chain(self.pool.documents.keys().cloned());
        // More than few, so that all are made.
        let many = (0..100).map(|n| Arc::from(format!("none-{n}")));
        self.pool.touched = all.chain(many).collect();
        assert_eq!(*self.pool.view(&mut self.members), *view);
        view
    }

    fn ids(&mut self) -> Vec<String> {
        let view = self.view();
        view.resources.iter().map(|it| it.id.to_string()).collect()
    }

    fn resource(&mut self, id: &str) -> ResourceView {
        let view = self.view();
        let found = view.resources.iter().find(|it| *it.id == *id);
        found.expect("a resource").clone()
    }

    fn capabilities(&mut self, id: &str) -> Vec<(String, u32)> {
        let resource = self.resource(id);
        let capabilities = resource.capabilities.iter();
        capabilities
            .map(|(name, &level)| (name.clone(), level))
            .collect()
    }
}

fn levels(levels: &[(&str, u32)]) -> Vec<(String, u32)> {
    let levels = levels.iter();
    levels
        .map(|&(name, level)| (name.to_owned(), level))
        .collect()
}

#[test]
fn a_name_that_two_executors_have_is_the_first_ones() {
    let mut world = World::new();
    world.report("10.0.0.2:1", own("general", &[]));
    world.report("10.0.0.1:1", own("general", &[]));
    world.report("", own("", &[]));
    world.report("10.0.0.3:1", own("", &[]));
    let expected = [
        "10.0.0.3:1",
        "executor",
        "general",
        "general@10.0.0.1:1",
        "web",
    ];
    assert_eq!(world.ids(), expected);
    // Each keeps its id while it is there.
    world.leave("10.0.0.2:1");
    let expected = ["10.0.0.3:1", "executor", "general@10.0.0.1:1", "web"];
    assert_eq!(world.ids(), expected);
    world.report("10.0.0.3:1", own("web", &[]));
    let expected = ["executor", "general@10.0.0.1:1", "web", "web@mcp_server"];
    assert_eq!(world.ids(), expected);
}

#[test]
fn an_executor_has_what_its_tools_give_and_what_it_declares() {
    let mut world = World::new();
    let declares = Own {
        capabilities: Capabilities::from([("gpu".to_owned(), 1), ("file_ops".to_owned(), 1)]),
        ..own("a", &["read_*", "write_*"])
    };
    world.report("a:1", declares);
    let all = levels(&[("file_ops", 2), ("gpu", 1), ("progress", 2)]);
    assert_eq!(world.capabilities("a"), all);
    world.report("b:1", own("b", &["read_*"]));
    // No pattern is about state tools.
    assert_eq!(world.capabilities("b"), levels(&[("progress", 2)]));
    assert!(world.grant("b", &["write_file"], &[]));
    assert!(!world.grant("b", &["write_file"], &[]), "that is known");
    let with_grant = levels(&[("file_ops", 2), ("progress", 2)]);
    assert_eq!(world.capabilities("b"), with_grant);
    assert!(world.grant("b", &["write_file"], &["read_file"]));
    assert_eq!(world.capabilities("b"), levels(&[("progress", 2)]));
    assert!(!world.resource("b").tools.allows("read_file"));
}

#[test]
fn an_executor_that_never_reported_is_shown_with_an_error() {
    let mut world = World::new();
    let id = MemberId::from("a:1");
    world.members.join(&id);
    world.members.lose(&id);
    assert!(world.pool.miss(&id, &mut world.members));
    assert!(!world.pool.miss(&id, &mut world.members));
    let shown = world.resource("a:1");
    assert_eq!(shown.state, ResourceState::Error);
    assert!(shown.capabilities.is_empty());
    world.report("a:1", own("", &[]));
    assert_eq!(world.resource("a:1").state, ResourceState::Available);
    assert_eq!(world.capabilities("a:1").len(), 2);
}

#[test]
fn a_registration_adds_to_what_is_there_and_is_a_resource_without_it() {
    let mut world = World::new();
    assert!(world.register("a", Some(document("gpu", "cuda"))));
    assert!(!world.register("a", Some(document("gpu", "cuda"))));
    let by_itself = world.resource("a");
    assert_eq!((by_itself.kind.as_str(), by_itself.slots), ("gpu", 3));
    assert_eq!(world.members.free_of_extra("a"), 3);
    world.report("a:1", own("a", &[]));
    let executor = world.resource("a");
    assert_eq!((executor.kind.as_str(), executor.slots), (EXECUTOR, 4));
    assert_eq!(executor.capabilities.get("cuda"), Some(&5));
    assert_eq!(executor.labels["rack"], "7");
    assert_eq!(world.members.free_of_extra("a"), 0);
    assert!(world.register("web", Some(document("", "cuda"))));
    let server = world.resource("web");
    assert_eq!((server.kind.as_str(), server.slots), (MCP_SERVER, 0));
    assert_eq!(server.capabilities.len(), 2);
    // What is registered of an executor that is away is no resource.
    assert!(world.register("away", Some(document(EXECUTOR, "cuda"))));
    assert_eq!(world.ids(), ["a", "web"]);
    world.leave("a:1");
    assert_eq!(world.resource("a").kind, "gpu");
    assert!(world.register("a", None));
    assert_eq!(world.ids(), ["web"]);
    assert_eq!(world.members.free_of_extra("a"), 0);
}

#[test]
fn a_snapshot_has_what_is_registered_and_what_executors_may_use() {
    let mut world = World::new();
    world.report("a:1", own("a", &["read_*"]));
    world.register("gpu-1", Some(document("gpu", "cuda")));
    let waiting = BTreeMap::from([("cuda".to_owned(), 2)]);
    let snapshot = world.pool.snapshot(&mut world.members, waiting.clone());
    assert_eq!(snapshot.waiting, waiting);
    assert_eq!(snapshot.view, world.view());
    let details = &snapshot.details["a"];
    assert_eq!(details.tools.patterns(), ["read_*"]);
    assert_eq!(details.registered, None);
    let registered = snapshot.details["gpu-1"].registered.expect("registered");
    assert_eq!(registered.version, 4);
}
