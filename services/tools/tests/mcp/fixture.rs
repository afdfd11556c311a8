//! A server, and a service that has its tools.

use crate::memory::Memory;
use crate::server::ARGS;
use async_trait::async_trait;
use cairn_boot::Trust;
use cairn_tools::mcp::{McpDeps, McpSource, Server, ServerConfig, Setting};
use cairn_tools::{
    Allowances, BoxError, Call, Config, Deps, Listed, Listing, Outcome, Output, Programs, Request,
    SourceState, StoreTime, Tool, ToolError, ToolSource, ToolSpec, Tools, build,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::watch;

/// What the store's clock shows, always.
const NOW: u64 = 1_000_000;

struct FixedTime;

#[async_trait]
impl StoreTime for FixedTime {
    async fn read(&self) -> Result<u64, BoxError> {
        Ok(NOW)
    }
}

/// A service whose workspace is the folder.
pub(crate) fn service(folder: &TempDir, change: impl FnOnce(&mut Config, &mut Deps)) -> Tools {
    let workspace = folder.path().join("ws");
    std::fs::create_dir_all(&workspace).unwrap();
    let mut config = Config {
        workspace,
        output: folder.path().join("out"),
        ..Config::default()
    };
    let mut deps = Deps::new(Arc::new(FixedTime));
    change(&mut config, &mut deps);
    build(config, deps).unwrap()
}

/// A source that lists one more tool whenever a test asks for it. The service reads all sources at once,
/// so when it has that tool, it also has everything that other sources listed before.
struct Fence(watch::Sender<Arc<Listing>>);

struct Mark(ToolSpec);

#[async_trait]
impl Tool for Mark {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &Call) -> Result<Output, ToolError> {
        Ok(Output::text(""))
    }
}

impl ToolSource for Fence {
    fn name(&self) -> &'static str {
        "fence"
    }

    fn listing(&self) -> watch::Receiver<Arc<Listing>> {
        self.0.subscribe()
    }
}

impl Fence {
    /// Lists one more tool, and returns its name.
    fn add(&self) -> String {
        let mut tools = self.0.borrow().tools.clone();
        let name = format!("fence_{}", tools.len());
        let spec = ToolSpec::new(name.clone(), "", json!({"type": "object"}));
        tools.push(Listed::enabled(Arc::new(Mark(spec))));
        self.0.send_replace(Arc::new(Listing {
            tools,
            ..Listing::default()
        }));
        name
    }
}

/// One server `t`, and the service that has its tools.
pub(crate) struct Mcp {
    pub(crate) folder: Arc<TempDir>,
    pub(crate) source: Arc<McpSource>,
    pub(crate) tools: Tools,
    fence: Arc<Fence>,
}

/// A folder for the server's log, the trust file and so on.
pub(crate) fn folder() -> Arc<TempDir> {
    Arc::new(TempDir::new().unwrap())
}

/// The settings of a server of these modes, separated by commas.
pub(crate) fn config(folder: &TempDir, modes: &str) -> ServerConfig {
    let log = folder.path().join("log").display().to_string();
    ServerConfig {
        command: std::env::current_exe().unwrap().display().to_string(),
        args: ARGS.map(str::to_owned).to_vec(),
        env: BTreeMap::from([
            ("MCP_MODE".to_owned(), Setting::new(modes)),
            ("MCP_LOG".to_owned(), Setting::new(&log)),
        ]),
        ..ServerConfig::default()
    }
}

pub(crate) fn trust(folder: &TempDir) -> Trust {
    Trust::at(folder.path().join("trust.json"))
}

impl Mcp {
    pub(crate) async fn new(modes: &str) -> Self {
        let folder = folder();
        let config = config(&folder, modes);
        let mcp = Self::with(&folder, Server::of_operator(config), None);
        mcp.until(|listing| listing.state == SourceState::Ready)
            .await;
        mcp
    }

    pub(crate) fn with(folder: &Arc<TempDir>, server: Server, trust: Option<Trust>) -> Self {
        Self::in_environment(folder, server, trust, &[])
    }

    /// The server in one of the processes that this memory serves.
    pub(crate) fn over(folder: &Arc<TempDir>, server: Server, memory: &Memory) -> Self {
        let allowances = Allowances::with_memory(memory.link());
        Self::keeping(folder, server, allowances, &[])
    }

    /// As [`Self::with`], with more variables.
    pub(crate) fn in_environment(
        folder: &Arc<TempDir>,
        server: Server,
        trust: Option<Trust>,
        variables: &[(&str, &str)],
    ) -> Self {
        let allowances = trust.map_or_else(Allowances::in_process, Allowances::in_file);
        Self::keeping(folder, server, allowances, variables)
    }

    fn keeping(
        folder: &Arc<TempDir>,
        server: Server,
        allowances: Allowances,
        variables: &[(&str, &str)],
    ) -> Self {
        let variables = [
            ("PATH", "/usr/bin:/bin"),
            ("HOME", "/nowhere"),
            ("SESAME", "open-sesame"),
        ]
        .iter()
        .chain(variables);
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let deps = McpDeps {
            workspace: folder.path().to_owned(),
            programs: Programs {
                environment: variables.map(owned).collect(),
                ..Programs::default()
            },
            allowances,
        };
        let source = Arc::new(McpSource::start("t", server, &deps));
        let fence = Arc::new(Fence(watch::Sender::new(Arc::default())));
        let (added, last) = (source.clone(), fence.clone());
        let tools = service(folder, |_, deps| {
            deps.sources.push(added);
            deps.sources.push(last);
        });
        Self {
            folder: folder.clone(),
            source,
            tools,
            fence,
        }
    }

    pub(crate) fn listing(&self) -> Arc<Listing> {
        self.source.listing().borrow().clone()
    }

    /// The first listing of which that holds. By then the service has it, and each task has had a turn.
    pub(crate) async fn until(&self, holds: impl Fn(&Listing) -> bool) -> Arc<Listing> {
        let mut listing = self.source.listing();
        let found = listing.wait_for(|listing| holds(listing));
        let found = tokio::time::timeout(Duration::from_secs(30), found).await;
        let Ok(found) = found else {
            panic!(
                "the listing stays {:?}; log: {}",
                self.listing(),
                self.log()
            );
        };
        let found = found.unwrap().clone();
        let last = self.fence.add();
        let has_last = || has_tool(&self.tools, &last);
        eventually("the service follows its sources", has_last).await;
        found
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.tools.invoker().invoke(asked(tool, &arguments)).await
    }

    pub(crate) async fn text(&self, tool: &str, text: &str) -> String {
        match self.call(tool, json!({"text": text})).await.result {
            Ok(output) => output.text,
            Err(error) => panic!("{tool} {text}: {}", error.to_text()),
        }
    }

    pub(crate) async fn error(&self, tool: &str, text: &str) -> ToolError {
        self.call(tool, json!({"text": text}))
            .await
            .result
            .unwrap_err()
    }

    /// Why each tool is disabled, by its name.
    pub(crate) fn disabled(&self) -> BTreeMap<String, String> {
        let listing = self.listing();
        let tools = listing.tools.iter();
        let disabled =
            tools.filter_map(|it| Some((it.tool.spec().name.clone(), it.disabled.clone()?)));
        disabled.collect()
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// How many lines of the server's log begin so.
    pub(crate) fn count(&self, line: &str) -> usize {
        self.log().lines().filter(|it| it.starts_with(line)).count()
    }
}

/// A request for a tool of the server.
pub(crate) fn asked(tool: &str, arguments: &Value) -> Request {
    request(&format!("t__{tool}"), arguments)
}

pub(crate) fn request(name: &str, arguments: &Value) -> Request {
    Request {
        name: name.to_owned(),
        arguments: arguments.to_string(),
        key: "0123456789abcdef".to_owned(),
        session: "s-1".to_owned(),
        // Far ahead: the real clock continues after the one reading of the store's.
        not_after: Some(NOW + 3_600_000),
        ..Request::default()
    }
}

/// Whether the service has a tool of that name.
pub(crate) fn has_tool(tools: &Tools, name: &str) -> bool {
    let tools = tools.invoker().tools();
    tools.iter().any(|it| it.spec().name == name)
}

/// A thing of the server's log happens in time.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("it never happened: {what}");
}
