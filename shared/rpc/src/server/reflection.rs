//! What reflection describes: the registered services, and what their messages are made of.

use prost::Message as _;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};
use tonic_reflection::server::{Builder, Error};

/// Reflection over the registered services alone. `own_name` is that of the reflection service.
///
/// Descriptor sets hold the contracts of all services. A public listener must not describe those of
/// internal ones, so files that the registered services do not need are left out.
///
/// # Errors
/// A descriptor set cannot be read.
pub(super) fn builder(
    own_name: &str,
    names: &[&'static str],
    descriptor_sets: &[&'static [u8]],
) -> Result<Builder<'static>, Error> {
    let mut builder = Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("grpc.health.v1.Health")
        .with_service_name(own_name);
    for set in descriptor_sets {
        let set = FileDescriptorSet::decode(*set).map_err(Error::DecodeError)?;
        builder = builder.register_file_descriptor_set(needed(set, names));
    }
    for name in names {
        builder = builder.with_service_name(*name);
    }
    Ok(builder)
}

/// The files of these services, without other services, and all files that they import.
fn needed(set: FileDescriptorSet, names: &[&'static str]) -> FileDescriptorSet {
    let mut files: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
    let mut missing = Vec::new();
    for mut file in set.file {
        let package = file.package().to_owned();
        let is_registered = |name: &str| names.iter().any(|known| is_in(known, &package, name));
        file.service.retain(|service| is_registered(service.name()));
        if !file.service.is_empty() {
            missing.push(file.name().to_owned());
        }
        files.insert(file.name().to_owned(), file);
    }
    let mut needed = BTreeSet::new();
    while let Some(name) = missing.pop() {
        if let Some(file) = files.get(&name).filter(|_| needed.insert(name)) {
            missing.extend(file.dependency.iter().cloned());
        }
    }
    files.retain(|name, _| needed.contains(name));
    FileDescriptorSet {
        file: files.into_values().collect(),
    }
}

/// Whether a full name is that of a service in a package.
fn is_in(full_name: &str, package: &str, service: &str) -> bool {
    match full_name.rsplit_once('.') {
        Some((prefix, name)) => (prefix, name) == (package, service),
        None => (package, full_name) == ("", service),
    }
}
