//! The messages as they are compiled are those that `descriptors.txt` lists under the version of the wire: a
//! changed field is seen in review, and raises the version.

use std::fmt::Write as _;

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet, ServiceDescriptorProto};

use sherd_proto::DESCRIPTORS;
use sherd_proto::limits::WIRE_VERSION;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/descriptors.txt");
const RENEW: &str = "SHERD_RENEW_DESCRIPTORS";

#[test]
fn messages_change_with_the_version_of_the_wire() {
    let listing = listing();
    let listed = std::fs::read_to_string(FILE).unwrap_or_default();
    if listed == listing {
        return;
    }
    if std::env::var_os(RENEW).is_some() {
        std::fs::write(FILE, listing).expect("write the listing");
        return;
    }
    let changes = listing
        .lines()
        .filter(|line| !listed.lines().any(|old| old == *line))
        .chain(listed.lines().filter(|line| !listing.lines().any(|new| new == *line)))
        .fold(String::new(), |all, line| all + line + "\n");
    panic!(
        "the messages are not those of proto/descriptors.txt. Nodes that speak them do not understand those that \
         do not: raise WIRE_VERSION (proto/src/limits.rs), unless no release has the version that it has. Then \
         renew the listing: {RENEW}=1 cargo test -p sherd-proto --test descriptors\n{changes}"
    );
}

fn listing() -> String {
    let set = FileDescriptorSet::decode(DESCRIPTORS).expect("written by the build");
    let mut text = format!("wire version {WIRE_VERSION}\n");
    for file in &set.file {
        writeln!(text, "\nfile {}", file.name()).expect("a string");
        file.service.iter().for_each(|service| put_service(&mut text, service));
        file.message_type.iter().for_each(|message| put_message(&mut text, file.package(), message));
        file.enum_type.iter().for_each(|numbers| put_enum(&mut text, file.package(), numbers));
    }
    text
}

fn put_service(text: &mut String, service: &ServiceDescriptorProto) {
    let stream = |is_stream: bool| if is_stream { "stream " } else { "" };
    for method in &service.method {
        writeln!(
            text,
            "rpc {}.{} {}{} -> {}{}",
            service.name(),
            method.name(),
            stream(method.client_streaming()),
            method.input_type().trim_start_matches('.'),
            stream(method.server_streaming()),
            method.output_type().trim_start_matches('.'),
        )
        .expect("a string");
    }
}

/// Lines that each name the message, so that a line alone says what it is about.
fn put_message(text: &mut String, within: &str, message: &DescriptorProto) {
    let name = format!("{within}.{}", message.name());
    if message.field.is_empty() {
        writeln!(text, "{name} is empty").expect("a string");
    }
    for field in &message.field {
        let kind = match field.r#type() {
            Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
            scalar => format!("{scalar:?}").to_lowercase(),
        };
        let often = match field.label() {
            Label::Repeated => " repeated",
            _ if field.proto3_optional() => " optional",
            _ if field.oneof_index.is_some() => " oneof",
            _ => "",
        };
        writeln!(text, "{name} {} {}{often} {kind}", field.number(), field.name()).expect("a string");
    }
    message.nested_type.iter().for_each(|nested| put_message(text, &name, nested));
    message.enum_type.iter().for_each(|numbers| put_enum(text, &name, numbers));
}

fn put_enum(text: &mut String, within: &str, numbers: &EnumDescriptorProto) {
    for value in &numbers.value {
        writeln!(text, "{within}.{} {} {}", numbers.name(), value.number(), value.name()).expect("a string");
    }
}
