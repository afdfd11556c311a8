//! The service above a supervising process.

use rustix::process::{Pid, getppid};

/// The service. It is known by its number, and by a descriptor, which no other process gets after it.
pub(super) struct Parent {
    id: Option<Pid>,
    #[cfg(target_os = "linux")]
    descriptor: Option<rustix::fd::OwnedFd>,
}

impl Parent {
    #[cfg(target_os = "linux")]
    pub(super) fn of(id: Option<Pid>) -> Self {
        use rustix::process::{PidfdFlags, pidfd_open};
        let descriptor = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        Self {
            id,
            // While it is the parent, the number is its own.
            descriptor: descriptor.filter(|_| getppid() == id),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(id: Option<Pid>) -> Self {
        Self { id }
    }

    /// Whether the service has ended.
    pub(super) fn has_ended(&self) -> bool {
        getppid() != self.id || self.is_readable()
    }

    /// A descriptor of a process can be read once that has ended.
    #[cfg(target_os = "linux")]
    fn is_readable(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(descriptor) = &self.descriptor else {
            return false;
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    #[cfg(not(target_os = "linux"))]
    fn is_readable(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_parent_has_not_ended() {
        assert!(!Parent::of(getppid()).has_ended());
        assert!(Parent::of(Some(rustix::process::getpid())).has_ended());
        assert!(Parent::of(Pid::from_raw(i32::MAX)).has_ended());
    }
}
