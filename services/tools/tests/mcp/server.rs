//! A server of the Model Context Protocol, good or hostile by its mode. It runs in a process of the test
//! binary itself: the test `serve` is called with `MCP_MODE` in its environment.
//!
//! It speaks JSON-RPC by hand, so that it can do what a library would not let it do.

mod http;
mod raw;
mod tools;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// What the process is to be; without it, the test does nothing.
const MODE: &str = "MCP_MODE";
/// A file that gets a line for each thing that happens.
const LOG: &str = "MCP_LOG";

/// Arguments that make the test binary such a server.
pub(crate) const ARGS: [&str; 3] = ["--exact", "server::serve", "--nocapture"];

#[test]
fn serve() {
    let variable = |name: &str| std::env::vars().find(|(key, _)| key == name).map(|it| it.1);
    let Some(mode) = variable(MODE) else {
        return;
    };
    let server = Arc::new(Server {
        modes: mode.split(',').map(str::to_owned).collect(),
        log: variable(LOG).map(PathBuf::from),
        changes: Mutex::default(),
        cancelled: Mutex::default(),
        listener: Mutex::default(),
        late: Mutex::default(),
        answers: Mutex::default(),
    });
    server.note(&format!(
        "start {}",
        std::env::vars()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
            .join(" ")
    ));
    if server.is("http") {
        http::serve(&server);
    }
    server.stdio();
    std::process::exit(0);
}

struct Server {
    modes: BTreeSet<String>,
    log: Option<PathBuf>,
    /// What tools are other than at the start.
    changes: Mutex<BTreeSet<String>>,
    /// Calls that the client no longer wants.
    cancelled: Mutex<BTreeSet<String>>,
    /// The request that waits for changes.
    listener: Mutex<Option<Value>>,
    /// The request to discover of a server that is late with its answer.
    late: Mutex<Option<Value>>,
    /// Answers to requests of this server.
    answers: Mutex<Vec<Value>>,
}

impl Server {
    fn is(&self, mode: &str) -> bool {
        self.modes.contains(mode)
    }

    fn note(&self, line: &str) {
        if let Some(path) = &self.log {
            let mut file = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .unwrap();
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    fn stdio(self: &Arc<Self>) {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            let Ok(message) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            if self.changes.lock().unwrap().contains("hang") {
                std::thread::sleep(std::time::Duration::from_secs(1000));
            }
            // A call may take long, and others are answered in the meantime.
            let server = self.clone();
            std::thread::spawn(move || {
                if let Some(frames) = server.raw(&message) {
                    return server.send_raw(&frames.sent);
                }
                if let Some(answer) = server.handle(&message) {
                    server.send(&answer);
                }
            });
        }
        self.note("end of input");
    }

    fn send(&self, message: &Value) {
        let mut out = std::io::stdout().lock();
        out.write_all(format!("{message}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }

    /// The answer to a message, if it gets one.
    fn handle(&self, message: &Value) -> Option<Value> {
        let id = &message["id"];
        let Some(method) = message["method"].as_str() else {
            self.answers.lock().unwrap().push(message.clone());
            return None;
        };
        let params = &message["params"];
        self.note(method);
        let result = match method {
            // As one that starts slowly: both requests are there when it reads the first.
            "server/discover" if self.is("late") => {
                *self.late.lock().unwrap() = Some(id.clone());
                return None;
            }
            "server/discover" => self.discover()?,
            "initialize" => {
                let late = self.late.lock().unwrap().take();
                if let Some(id) = late {
                    self.send(&answer(&id, self.discover()?));
                }
                self.initialize(params)?
            }
            "tools/list" => Ok(self.list(params)),
            "tools/call" => self.call(id, params)?,
            "subscriptions/listen" => {
                *self.listener.lock().unwrap() = Some(id.clone());
                self.send(
                    &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id},
                        "notifications": {"toolsListChanged": true}}}),
                );
                return None;
            }
            "notifications/cancelled" => {
                let cancelled = params["requestId"].to_string();
                self.note(&format!("cancelled {cancelled}"));
                self.cancelled.lock().unwrap().insert(cancelled);
                return None;
            }
            _ if id.is_null() => return None,
            _ => Err(json!({"code": -32601, "message": "method not found"})),
        };
        Some(answer(id, result))
    }

    fn discover(&self) -> Option<Result<Value, Value>> {
        if self.is("exits") {
            std::process::exit(1);
        }
        if self.is("silent") || self.is("dumb") {
            return None;
        }
        if self.is("empty") {
            return Some(Ok(json!({})));
        }
        if self.is("new") {
            return Some(Ok(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                "cacheScope": "private", "capabilities": {"tools": {"listChanged": true}},
            })));
        }
        Some(Err(json!({"code": -32601, "message": "method not found"})))
    }

    fn initialize(&self, params: &Value) -> Option<Result<Value, Value>> {
        if self.is("new") {
            return Some(Err(json!({"code": -32601, "message": "no longer spoken"})));
        }
        if self.is("dumb") {
            return None;
        }
        self.note(&format!("initialize {}", params["protocolVersion"]));
        Some(Ok(json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "test", "version": "0"},
        })))
    }

    /// Sends a notification that the tools are others now.
    fn say_changed(&self) {
        let mut params = json!({});
        if let Some(listener) = &*self.listener.lock().unwrap() {
            params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": listener}});
        }
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": params}));
    }
}

fn answer(id: &Value, result: Result<Value, Value>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
    }
}
