//! Hooks by the means of this process.

use crate::host::{Host, Links};
use crate::in_process::InProcess;
use crate::program::Program;
use crate::{Hook, HookExecutor, ProgramConfig};
use cairn_supervise::Supervisor;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{PathBuf, absolute};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Asks hooks of all three kinds: those that are registered here, programs on this machine, and services.
pub struct SystemHooks {
    workspace: PathBuf,
    environment: BTreeMap<String, String>,
    supervisor: Option<Supervisor>,
    registered: BTreeMap<String, Arc<dyn Hook>>,
    links: Mutex<Links>,
}

impl SystemHooks {
    /// Programs run in `workspace`. Of `environment` they get `PATH` and what their settings name. Without a supervisor
    /// they may continue after a kill of this process.
    ///
    /// A relative `workspace` is one of the present folder: programs are told an absolute one.
    pub fn new(
        workspace: PathBuf,
        environment: BTreeMap<String, String>,
        supervisor: Option<Supervisor>,
    ) -> Self {
        Self {
            // It fails for an empty path, and if the present folder is gone.
            workspace: absolute(&workspace).unwrap_or(workspace),
            environment,
            supervisor,
            registered: BTreeMap::new(),
            links: Mutex::default(),
        }
    }

    /// Registers a hook of this process. A later one takes the place of an earlier one of the same name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, hook: Arc<dyn Hook>) -> Self {
        self.registered
            .insert(name.into(), Arc::new(InProcess(hook)));
        self
    }
}

impl HookExecutor for SystemHooks {
    fn in_process(&self, name: &str) -> Option<Arc<dyn Hook>> {
        self.registered.get(name).cloned()
    }

    fn program(&self, config: &ProgramConfig, timeout: Duration) -> Arc<dyn Hook> {
        let supervisor = self.supervisor.clone();
        Arc::new(Program::new(
            config,
            &self.environment,
            self.workspace.clone(),
            supervisor,
            timeout,
        ))
    }

    fn host(&self, url: &str, timeout: Duration) -> Arc<dyn Hook> {
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let link = links.get(url, timeout);
        Arc::new(Host { link, timeout })
    }
}

impl fmt::Debug for SystemHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The environment may hold secrets.
        f.debug_struct("SystemHooks").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_an_absolute_workspace() {
        let here = std::env::current_dir().unwrap();
        for (workspace, expected) in [
            (".", here.clone()),
            ("work", here.join("work")),
            ("/work", PathBuf::from("/work")),
        ] {
            let hooks = SystemHooks::new(workspace.into(), BTreeMap::new(), None);
            assert_eq!(hooks.workspace, expected, "{workspace}");
        }
    }
}
