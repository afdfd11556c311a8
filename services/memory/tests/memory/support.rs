//! What several tests need.

pub(crate) mod clients;
pub(crate) mod ops;
pub(crate) mod reference;
pub(crate) mod remote;
pub(crate) mod wire;
pub(crate) mod work;
