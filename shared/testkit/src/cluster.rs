//! The five services as processes of their own: one of each, or several.

use crate::ports::free_port;
use crate::site::{Site, Starting};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitStatus;
use std::time::Duration;

/// Each after those that it waits for.
pub const SERVICES: [&str; 5] = ["memory", "tools", "executor", "planner", "orchestrator"];

/// The longest that a process may take until it serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process's place: its service, and its number among those of the service, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// One of [`SERVICES`].
    pub service: &'static str,
    /// From 0.
    pub number: usize,
}

impl Member {
    /// The file in the site's folder that its logs are in.
    pub fn log(self) -> String {
        match self.number {
            0 => format!("{}.log", self.service),
            number => format!("{}-{number}.log", self.service),
        }
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.service, self.number)
    }
}

/// What a member's process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There is none: it was killed, or not begun.
    Down,
    /// It has not said yet that it serves.
    Starting,
    /// It serves, unless it is frozen.
    Serving,
    /// It ended by itself before it served, or afterwards.
    Ended {
        /// It had said that it serves.
        served: bool,
        /// How it ended.
        status: ExitStatus,
    },
}

/// Processes of a site, each of which can be killed, frozen, and started again at its address.
/// They end with the value, and on Linux with the thread that started them.
#[derive(Debug)]
pub struct Cluster<'a> {
    site: &'a Site,
    ports: BTreeMap<Member, u16>,
    variables: Vec<(String, String)>,
    processes: BTreeMap<Member, Starting>,
    /// Where others are told that a service is, if that is not where it listens.
    detours: BTreeMap<&'static str, String>,
}

impl<'a> Cluster<'a> {
    /// Starts all five, one process each, and returns when clients are served.
    pub fn start(site: &'a Site, variables: &[(&str, &str)]) -> Self {
        Self::several(site, variables, SERVICES.map(|_| 1))
    }

    /// Starts so many processes of each of [`SERVICES`], and returns when all of them serve.
    pub fn several(site: &'a Site, variables: &[(&str, &str)], counts: [usize; 5]) -> Self {
        Self::with_spares(site, variables, counts, 0)
    }

    /// The same with so many further places of each service, known to all, in which no process is yet.
    pub fn with_spares(
        site: &'a Site,
        variables: &[(&str, &str)],
        counts: [usize; 5],
        spares: usize,
    ) -> Self {
        let places = counts.map(|count| count + spares);
        Self::with_places(site, variables, counts, places)
    }

    /// The same with so many places for each service. The first of them have a process, as many as `counts` says.
    pub fn with_places(
        site: &'a Site,
        variables: &[(&str, &str)],
        counts: [usize; 5],
        places: [usize; 5],
    ) -> Self {
        let members = SERVICES.into_iter().zip(places);
        let members = members.flat_map(|(service, places)| {
            (0..places).map(move |number| Member { service, number })
        });
        let variables = variables.iter();
        let mut cluster = Self {
            site,
            ports: members.map(|member| (member, free_port())).collect(),
            variables: variables.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            processes: BTreeMap::new(),
            detours: BTreeMap::new(),
        };
        for (service, count) in SERVICES.into_iter().zip(counts) {
            let mut members = cluster.members_of(service);
            members.truncate(count);
            members.iter().for_each(|member| cluster.begin(*member));
            members.iter().for_each(|member| cluster.wait(*member));
        }
        cluster
    }

    /// Where clients find it: the first orchestrator.
    pub fn url(&self) -> String {
        self.address("orchestrator")
    }

    /// The places of all processes.
    pub fn members(&self) -> Vec<Member> {
        self.ports.keys().copied().collect()
    }

    /// The places of a service's processes.
    pub fn members_of(&self, service: &str) -> Vec<Member> {
        let members = self.ports.keys().copied();
        members.filter(|it| it.service == service).collect()
    }

    /// Kills the first process of a service.
    pub fn kill(&mut self, service: &'static str) {
        self.kill_member(first(service));
    }

    /// Kills a process, as `kill -9` does, and waits until it is gone.
    pub fn kill_member(&mut self, member: Member) {
        self.processes.remove(&member);
    }

    /// Tells a process to stop, as whoever replaces it does; not one that is not there.
    pub fn terminate(&self, member: Member) {
        self.signal(member, Signal::TERM);
    }

    /// Waits until a process that was told to stop has ended, and tells how.
    ///
    /// # Panics
    /// If it was not begun.
    pub fn wait_for_end(&mut self, member: Member) -> ExitStatus {
        let process = self.processes.remove(&member);
        process.expect("it was begun").wait()
    }

    /// Starts a service in the place of the one that was killed, and returns when it serves.
    pub fn start_again(&mut self, service: &'static str) {
        self.begin(first(service));
        self.wait(first(service));
    }

    /// Starts a process in its place and does not wait for it. One that is there is killed first.
    pub fn begin(&mut self, member: Member) {
        self.kill_member(member);
        let here = self.address_of(member);
        let here = here.trim_start_matches("http://");
        let listen = match member.service {
            "orchestrator" => "--listen",
            _ => "--internal",
        };
        let others = SERVICES.iter().filter(|other| **other != "orchestrator");
        let links: Vec<_> = others
            .map(|other| format!("--link={other}={}", self.way_to(other)))
            .collect();
        let mut arguments = vec!["serve", member.service, listen, here, "--json"];
        arguments.extend(links.iter().map(String::as_str));
        let variables = self.variables.iter();
        let variables: Vec<_> = variables.map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let process = self.site.begin(&arguments, &variables, &member.log());
        self.processes.insert(member, process);
    }

    /// Processes that are begun from now on have this variable.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// From now on, whoever is started is told that a service is at this address, or again where it
    /// listens.
    pub fn detour(&mut self, service: &'static str, address: Option<String>) {
        match address {
            Some(address) => self.detours.insert(service, address),
            None => self.detours.remove(service),
        };
    }

    fn way_to(&self, service: &str) -> String {
        let detour = self.detours.get(service).cloned();
        detour.unwrap_or_else(|| self.addresses(service).join(","))
    }

    /// What a member's process does now.
    pub fn state(&mut self, member: Member) -> State {
        let Some(process) = self.processes.get_mut(&member) else {
            return State::Down;
        };
        let served = process.first_line(Duration::ZERO).is_some();
        match process.has_ended() {
            Some(status) => State::Ended { served, status },
            None if served => State::Serving,
            None => State::Starting,
        }
    }

    /// Stops a process in the middle of whatever it does; its connections stay. Not one that is
    /// not there.
    pub fn freeze(&self, member: Member) {
        self.signal(member, Signal::STOP);
    }

    /// Lets it go on.
    pub fn thaw(&self, member: Member) {
        self.signal(member, Signal::CONT);
    }

    /// The id of the first process of a service.
    pub fn process_id(&self, service: &'static str) -> Option<u32> {
        self.process_id_of(first(service))
    }

    /// The id of a process.
    pub fn process_id_of(&self, member: Member) -> Option<u32> {
        self.processes.get(&member).map(Starting::id)
    }

    /// Where the first process of a service listens.
    pub fn address(&self, service: &'static str) -> String {
        self.address_of(first(service))
    }

    /// Where all processes of a service listen.
    pub fn addresses(&self, service: &str) -> Vec<String> {
        let members = self.members_of(service).into_iter();
        members.map(|member| self.address_of(member)).collect()
    }

    fn address_of(&self, member: Member) -> String {
        let port = self.ports.get(&member).copied().unwrap_or_default();
        format!("http://127.0.0.1:{port}")
    }

    /// Waits until a process that was begun serves.
    ///
    /// # Panics
    /// If it does not, with the end of its log.
    pub fn wait(&mut self, member: Member) {
        let process = self.processes.get_mut(&member).expect("it was begun");
        let line = process.first_line(PATIENCE).unwrap_or_default().to_owned();
        let log = || self.site.tail(&member.log(), 15);
        let serves = line.contains(member.service);
        assert!(serves, "{member} does not serve: {line:?}\n{}", log());
    }

    fn signal(&self, member: Member, signal: Signal) {
        let id = self.processes.get(&member).map(Starting::id);
        let id = id.and_then(|id| Pid::from_raw(id.cast_signed()));
        // It may have ended by itself.
        let _ = id.map(|id| kill_process(id, signal));
    }
}

fn first(service: &'static str) -> Member {
    Member { service, number: 0 }
}
