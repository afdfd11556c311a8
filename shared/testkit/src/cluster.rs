//! The five services as five processes.

use crate::site::{Running, Site};
use std::collections::BTreeMap;
use std::net::TcpListener;

/// Each after those that it waits for.
pub const SERVICES: [&str; 5] = ["memory", "tools", "executor", "planner", "orchestrator"];

/// Five processes of a site, each of which can be killed and started again at its address.
#[derive(Debug)]
pub struct Cluster<'a> {
    site: &'a Site,
    ports: BTreeMap<&'static str, u16>,
    variables: Vec<(String, String)>,
    processes: BTreeMap<&'static str, Running>,
}

impl<'a> Cluster<'a> {
    /// Starts all five, and returns when clients are served.
    pub fn start(site: &'a Site, variables: &[(&str, &str)]) -> Self {
        let variables = variables.iter();
        let mut cluster = Self {
            site,
            ports: SERVICES.map(|service| (service, free_port())).into(),
            variables: variables.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            processes: BTreeMap::new(),
        };
        for service in SERVICES {
            cluster.start_again(service);
        }
        cluster
    }

    /// Where clients find it.
    pub fn url(&self) -> String {
        self.address("orchestrator")
    }

    /// Kills the process of a service.
    pub fn kill(&mut self, service: &'static str) {
        self.processes.remove(service);
    }

    /// Starts a service in the place of the one that was killed, and returns when it serves.
    pub fn start_again(&mut self, service: &'static str) {
        let here = self.address(service);
        let here = here.trim_start_matches("http://");
        let listen = match service {
            "orchestrator" => "--listen",
            _ => "--internal",
        };
        let others = SERVICES
            .into_iter()
            .filter(|other| *other != "orchestrator");
        let links: Vec<_> = others
            .map(|other| format!("--link={other}={}", self.address(other)))
            .collect();
        let mut arguments = vec!["serve", service, listen, here, "--json"];
        arguments.extend(links.iter().map(String::as_str));
        let variables = self.variables.iter();
        let variables: Vec<_> = variables.map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let process = self.site.start(&arguments, &variables);
        assert!(
            process.first_line.contains(service),
            "{service} does not serve: {:?}",
            process.first_line
        );
        self.processes.insert(service, process);
    }

    /// The id of the process of a service.
    pub fn process_id(&self, service: &str) -> Option<u32> {
        self.processes.get(service).map(Running::id)
    }

    /// Where a service listens.
    pub fn address(&self, service: &str) -> String {
        let port = self.ports.get(service).copied().unwrap_or_default();
        format!("http://127.0.0.1:{port}")
    }
}

/// A port that nobody has now. Somebody may take it before it is used, which is rare.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}
