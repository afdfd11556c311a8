//! A store, and commands that are given one after the other. Each is a process of its own, or comes to
//! a server of its own, so that nothing is known but what is stored.

use super::CAIRN;
use super::served::add_model;
use cairn_testkit::site::Running;
use cairn_testkit::{Journal, ModelServer, Output, Site, TestStore};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Where commands are given, and where what they do is stored.
pub(crate) struct Place {
    pub(crate) site: Site,
    store: Arc<TestStore>,
    /// What the names of all keys begin with, if others are in the same store.
    prefix: Option<String>,
    /// A server that is kept, and its address.
    server: Option<(Running, String)>,
}

impl Place {
    pub(crate) fn over(store: TestStore) -> Self {
        Self::with(Arc::new(store), None)
    }

    /// A place for itself beside others: a file of its own, or a part of the same servers.
    pub(crate) fn beside_others(store: &Arc<TestStore>, name: &str) -> Self {
        Self::with(Arc::clone(store), Some(name.to_owned()))
    }

    /// The same with a model as the default, and a tool `record` that needs approval.
    pub(crate) fn that_asks(store: &Arc<TestStore>, name: &str, model: &ModelServer) -> Self {
        let place = Self::beside_others(store, name);
        let settings = place.site.read("cairn.toml").expect("settings");
        let ask = "[tools]\nask = [\"record\"]\n\n[[tools.commands]]";
        let settings = settings.replacen("[[tools.commands]]", ask, 1);
        place.site.write("cairn.toml", &settings);
        add_model(&place.site, model);
        place
    }

    fn with(store: Arc<TestStore>, prefix: Option<String>) -> Self {
        Self {
            site: Site::new(CAIRN),
            store,
            prefix,
            server: None,
        }
    }

    /// Whether commands find the store without a server between.
    pub(crate) fn is_file(&self) -> bool {
        self.store.is_file()
    }

    /// Lets a moment pass before a client tries again. A call over a broken link fails at once, and a
    /// client that calls in a loop leaves its runtime no time to connect.
    pub(crate) async fn pause(&self) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    /// What a process has to be told to find the store.
    pub(crate) fn variables(&self) -> Vec<(&str, &str)> {
        let prefix = self.prefix.as_deref();
        let prefix = prefix.map(|prefix| ("CAIRN_STORE__REDIS__PREFIX", prefix));
        let mut variables = self.store.variables();
        variables.extend(prefix);
        variables
    }

    /// A store elsewhere is served for this command, and by nobody afterwards, unless a server is
    /// kept.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    /// The same with more variables, for whoever gives the command.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        if self.is_file() || self.server.is_some() {
            return self.site.run_with(&self.to_server(arguments), variables);
        }
        let (mut serving, address) = self.serve(&[]);
        let there = [arguments, &["--server", &address]].concat();
        let output = self.site.run_with(&there, variables);
        serving.interrupt();
        assert_eq!(serving.wait_for_code(), Some(0), "{arguments:?}");
        output
    }

    /// Runs a command that has to end so.
    pub(crate) fn with_code(&self, code: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        output
    }

    /// Serves the store until the value is dropped, and tells at which address.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> (Running, String) {
        let serving = self.begin_to_serve(variables);
        let address = address(&serving).expect("it serves");
        (serving, address)
    }

    fn begin_to_serve(&self, variables: &[(&str, &str)]) -> Running {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let variables = [&self.variables(), variables].concat();
        self.site.start(&serve, &variables)
    }

    /// Serves the store until that server is stopped or killed: whatever is asked meanwhile, it
    /// answers.
    pub(crate) fn keep_serving(&mut self) {
        assert!(self.keep_serving_with(&[]), "it does not serve");
    }

    /// The same with more variables, for the server, which may make it die before it is there: then
    /// nobody can reach it.
    pub(crate) fn keep_serving_with(&mut self, variables: &[(&str, &str)]) -> bool {
        let serving = self.begin_to_serve(variables);
        let address = address(&serving);
        let is_there = address.is_some();
        self.server = Some((serving, address.unwrap_or_default()));
        is_there
    }

    /// Where the server is that is kept.
    pub(crate) fn address(&self) -> &str {
        let (_, address) = self.server.as_ref().expect("a server");
        address
    }

    /// Tells the server that is kept to stop, and waits for its end.
    pub(crate) fn stop_server(&mut self) {
        let (mut server, _) = self.server.take().expect("a server");
        server.interrupt();
        assert_eq!(server.wait_for_code(), Some(0));
    }

    /// Whether there is a server that is kept and has not died.
    pub(crate) fn is_served(&mut self) -> bool {
        let server = self.server.as_mut();
        server.is_some_and(|(running, _)| running.is_alive())
    }

    /// Waits until the server that is kept has died, and tells of which signal.
    pub(crate) fn wait_for_signal(&mut self) -> Option<i32> {
        let (mut server, _) = self.server.take().expect("a server");
        server.wait_for_signal()
    }

    /// Kills the server that is kept, if there is one, as `kill -9` does.
    pub(crate) fn kill_server(&mut self) {
        self.server = None;
    }

    /// A command with what it needs to come to the server that is kept; in a file it finds it
    /// without.
    pub(crate) fn to_server<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        match self.is_file() {
            true => arguments.to_vec(),
            false => [arguments, &["--server", self.address()]].concat(),
        }
    }

    /// Starts a command, and leaves it running with the server that it comes to, if there is one.
    pub(crate) fn start(&self, arguments: &[&str]) -> (Running, Option<Running>) {
        if self.is_file() {
            return (self.site.start(arguments, &[]), None);
        }
        let (serving, address) = self.serve(&[]);
        let there = [arguments, &["--server", &address]].concat();
        (self.site.start(&there, &[]), Some(serving))
    }

    /// The ids of all sessions.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let listed = self.with_code(0, &["sessions", "--json"]).out;
        let lines = listed
            .lines()
            .map(|line| -> Value { serde_json::from_str(line).expect("a line of JSON") });
        lines
            .map(|it| it["id"].as_str().expect("an id").to_owned())
            .collect()
    }

    pub(crate) fn journal(&self, session: &str) -> Journal {
        Journal::read(&self.with_code(0, &["export", session]).out)
    }
}

/// Where a server listens, by its first line; none if it died before.
fn address(serving: &Running) -> Option<String> {
    let reported: Value = serde_json::from_str(&serving.first_line).ok()?;
    Some(reported["listen"].as_str().expect("an address").to_owned())
}
