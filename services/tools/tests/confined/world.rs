//! A folder with a workspace, and beside it what a command must not reach: a home, a store with its socket and
//! token, a file, and a process.

use async_trait::async_trait;
use cairn_supervise::Supervisor;
use cairn_tools::{
    BoxError, Config, Deps, Holds, Request, ShellConfig, StoreTime, ToolError, Tools, build,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// What no command may show.
pub(crate) const CANARY: &str = "canary-4711";
/// Settings that the operator has named.
const SETTINGS: &str = "ws/mine.toml";
const NOW: u64 = 1_000_000;

struct FixedTime;

#[async_trait]
impl StoreTime for FixedTime {
    async fn read(&self) -> Result<u64, BoxError> {
        Ok(NOW)
    }
}

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) tools: Tools,
    pub(crate) runtime: Runtime,
    /// A process of the same user, outside of every confinement.
    decoy: Child,
    socket: UnixListener,
    tcp: TcpListener,
    before: BTreeMap<PathBuf, String>,
    /// Programs of this process inherit it.
    _inherited: fs::File,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        for name in ["ws/.git/hooks", "ws/prompts", "home/.ssh", "state", "other"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        for name in [
            "home/.ssh/id",
            "home/.bashrc",
            "home/.gitconfig",
            "state/cairn.db",
            "state/trust.json",
            "state/7878.token",
            "outside",
            "other/file",
        ] {
            fs::write(at.join(name), format!("{CANARY}\n")).unwrap();
        }
        for name in ["ws/cairn.toml", SETTINGS] {
            fs::write(at.join(name), "[tools]\n").unwrap();
        }
        // Git reads it, and commands do.
        let git = format!("[user]\n\tname = {CANARY}\n");
        fs::write(at.join("home/.gitconfig"), git).unwrap();
        let socket = UnixListener::bind(at.join("state/cairn.sock")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        tcp.set_nonblocking(true).unwrap();
        let runtime = Runtime::new().unwrap();
        let tools = runtime.block_on(async { tools(&at, change) });
        let mut decoy = Command::new("sleep");
        let decoy = decoy.arg("1000").env("SECRET", CANARY).spawn().unwrap();
        let inherited = fs::File::open(at.join("outside")).unwrap();
        rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
        let before = outside(&at);
        Self {
            folder,
            tools,
            runtime,
            decoy,
            socket,
            tcp,
            before,
            _inherited: inherited,
        }
    }

    pub(crate) fn at(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// What this system can hold.
    pub(crate) fn holds() -> Holds {
        Holds::find(&Supervisor::this_program().unwrap())
    }

    /// A text with the names of this world put in.
    pub(crate) fn filled(&self, text: &str) -> String {
        let at = self.at();
        let at = at.to_str().unwrap();
        let port = self.tcp.local_addr().unwrap().port().to_string();
        let service = std::process::id().to_string();
        let decoy = self.decoy.id().to_string();
        [
            ("{AT}", at),
            ("{PORT}", &port),
            ("{SERVICE}", &service),
            ("{DECOY}", &decoy),
        ]
        .into_iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }

    /// Runs a command, confined.
    pub(crate) fn run(&self, command: &str) -> Result<String, ToolError> {
        self.call(&json!({"command": command, "timeout": 60}))
    }

    pub(crate) fn call(&self, arguments: &Value) -> Result<String, ToolError> {
        self.call_tool("shell_exec", arguments)
    }

    pub(crate) fn call_tool(&self, name: &str, arguments: &Value) -> Result<String, ToolError> {
        let request = Request {
            name: name.to_owned(),
            arguments: arguments.to_string(),
            key: "0123456789abcdef".to_owned(),
            session: "s-1".to_owned(),
            not_after: Some(NOW + 3_600_000),
            ..Request::default()
        };
        let outcome = self.runtime.block_on(self.tools.invoker().invoke(request));
        outcome.result.map(|output| output.text)
    }

    /// Runs a command with all rights of this user.
    pub(crate) fn run_unconfined(&self, command: &str) -> String {
        let ran = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.at().join("ws"))
            .env("HOME", self.at().join("home"))
            .env("TMPDIR", self.at().join("other"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        format!(
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        )
    }

    /// What is not as it was outside of the workspace: in words.
    pub(crate) fn damage(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let now = outside(&self.at());
        let names = now.keys().chain(self.before.keys());
        let differs = |name: &&PathBuf| now.get(*name) != self.before.get(*name);
        found.extend(
            names
                .filter(differs)
                .map(|name| format!("{} is changed", name.display())),
        );
        if self.decoy.try_wait().unwrap().is_some() {
            found.push("a process of another program was ended".to_owned());
        }
        if self.socket.accept().is_ok() {
            found.push("the socket of the store was reached".to_owned());
        }
        if self.tcp.accept().is_ok() {
            found.push("a port was reached".to_owned());
        }
        found
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.decoy.kill();
        _ = self.decoy.wait();
    }
}

fn tools(at: &Path, change: impl FnOnce(&mut Config)) -> Tools {
    let mut config = Config {
        workspace: at.join("ws"),
        output: at.join("ws/cairn-out"),
        shell: ShellConfig::default(),
        store_paths: vec![at.join("state")],
        private: vec![at.join(SETTINGS)],
        ..Config::default()
    };
    let mut deps = Deps::new(Arc::new(FixedTime));
    deps.programs.supervisor = Some(Supervisor::this_program().unwrap());
    let home = at.join("home").display().to_string();
    let path = std::env::var_os("PATH").and_then(|path| path.into_string().ok());
    let variables = [
        ("PATH", path.unwrap_or_else(|| "/usr/bin:/bin".to_owned())),
        ("HOME", home),
        ("OPENAI_API_KEY", CANARY.to_owned()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value));
    deps.programs.environment.extend(variables);
    deps.programs.environment.extend(toolchains());
    change(&mut config);
    build(config, deps).unwrap()
}

/// Where the toolchains of this user are: the home of a world has none.
fn toolchains() -> impl Iterator<Item = (String, String)> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let homes = [
        ("CARGO_HOME", ".cargo"),
        ("RUSTUP_HOME", ".rustup"),
        ("PYENV_ROOT", ".pyenv"),
        ("NVM_DIR", ".nvm"),
    ];
    let found = homes.into_iter().map(move |(name, place)| {
        let named = std::env::var_os(name).map(PathBuf::from);
        (name.to_owned(), named.unwrap_or_else(|| home.join(place)))
    });
    let found = found.filter(|(_, place)| place.is_dir());
    found.map(|(name, place)| (name, place.display().to_string()))
}

/// Each file outside of the workspace: its kind, content, mode, owner and time.
fn outside(at: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left: Vec<PathBuf> = ["home", "state", "other", "outside"]
        .map(|name| at.join(name))
        .into();
    while let Some(path) = left.pop() {
        let Ok(file) = path.symlink_metadata() else {
            continue;
        };
        let content = match file.is_file() {
            true => fs::read_to_string(&path).unwrap_or_default(),
            false => String::new(),
        };
        let time = if file.is_dir() { 0 } else { file.mtime() };
        let how = (file.mode(), file.uid(), file.nlink(), time, content);
        if file.is_dir() {
            let entries = fs::read_dir(&path).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path()));
        }
        found.insert(path, format!("{how:?}"));
    }
    found
}
