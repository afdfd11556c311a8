//! A service over folders of its own, and tools that do what a test says.

use async_trait::async_trait;
use cairn_tools::{
    BoxError, Call, Config, Deps, Effect, Outcome, Output, Request, StoreTime, Tool, ToolError,
    ToolSpec, Tools, build,
};
use serde_json::{Value, json};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// What the store's clock shows in tests, always.
pub(crate) const NOW: u64 = 1_000_000;

pub(crate) struct FixedTime;

#[async_trait]
impl StoreTime for FixedTime {
    async fn read(&self) -> Result<u64, BoxError> {
        Ok(NOW)
    }
}

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) tools: Tools,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// `change` sees settings with a workspace `ws` and an output folder `out` beside it.
    pub(crate) fn with(change: impl FnOnce(&mut Config, &mut Deps)) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir(folder.path().join("ws")).unwrap();
        let mut config = Config {
            workspace: folder.path().join("ws"),
            output: folder.path().join("out"),
            ..Config::default()
        };
        let mut deps = Deps::new(Arc::new(FixedTime));
        change(&mut config, &mut deps);
        let tools = build(config, deps).unwrap();
        Self { folder, tools }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("ws").join(below)
    }

    pub(crate) fn output(&self, below: &str) -> PathBuf {
        self.folder.path().join("out").join(below)
    }

    /// Puts a file into the workspace.
    pub(crate) fn put(&self, below: &str, content: impl AsRef<[u8]>) {
        put(&self.path(below), content);
    }

    /// The tools that may be called, in order.
    pub(crate) fn listed(&self) -> Vec<ToolSpec> {
        let invoker = self.tools.invoker();
        let may_be = |spec: &&ToolSpec| invoker.permissions().allows(&spec.name);
        let tools = invoker.tools();
        let specs = tools.iter().map(|entry| entry.spec());
        specs.filter(may_be).cloned().collect()
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Outcome {
        self.tools
            .invoker()
            .invoke(request(name, &arguments.to_string()))
            .await
    }

    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        match self.call(name, arguments).await.result {
            Ok(output) => output.text,
            Err(error) => panic!("{name} {shown}: {}", error.to_text()),
        }
    }

    pub(crate) async fn error(&self, name: &str, arguments: Value) -> ToolError {
        let shown = arguments.to_string();
        match self.call(name, arguments).await.result {
            Ok(output) => panic!("{name} {shown} gives {}", output.text),
            Err(error) => error,
        }
    }
}

pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

pub(crate) fn request(name: &str, arguments: &str) -> Request {
    Request {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        key: "0123456789abcdef".to_owned(),
        session: "s-1".to_owned(),
        // Far ahead: the real clock continues after the one reading of the store's.
        not_after: Some(NOW + 3_600_000),
        ..Request::default()
    }
}

type Work =
    dyn Fn(Call) -> Pin<Box<dyn Future<Output = Result<Output, ToolError>> + Send>> + Send + Sync;

/// A tool whose work is a closure.
pub(crate) struct Custom {
    spec: ToolSpec,
    work: Box<Work>,
}

impl Custom {
    pub(crate) fn tool<F>(
        name: &str,
        effect: Effect,
        work: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool>
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        Self::with(name, effect, Duration::from_secs(20), 4096, work)
    }

    pub(crate) fn with<F>(
        name: &str,
        effect: Effect,
        time_limit: Duration,
        output_limit: usize,
        work: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool>
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec {
            effect,
            time_limit,
            output_limit,
            ..ToolSpec::new(name, "test", json!({"type": "object"}))
        };
        Self::of(spec, work)
    }

    /// A tool of a source of that name.
    pub(crate) fn of_source<F>(
        source: &str,
        name: &str,
        effect: Effect,
        work: impl Fn(Call) -> F + Send + Sync + 'static,
    ) -> Arc<dyn Tool>
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let spec = ToolSpec {
            effect,
            source: source.to_owned(),
            ..ToolSpec::new(name, "test", json!({"type": "object"}))
        };
        Self::of(spec, work)
    }

    fn of<F>(spec: ToolSpec, work: impl Fn(Call) -> F + Send + Sync + 'static) -> Arc<dyn Tool>
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        Arc::new(Self {
            spec,
            work: Box::new(move |call| Box::pin(work(call))),
        })
    }
}

#[async_trait]
impl Tool for Custom {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, call: &Call) -> Result<Output, ToolError> {
        (self.work)(call.clone()).await
    }
}

/// A service with these tools besides its own.
pub(crate) fn with_tools(tools: Vec<Arc<dyn Tool>>) -> World {
    World::with(|_, deps| deps.tools = tools)
}

/// A tool that counts its calls.
pub(crate) fn counting(name: &str, effect: Effect) -> (Arc<dyn Tool>, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    let tool = Custom::tool(name, effect, move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(Output::text("ran")) }
    });
    (tool, count)
}
