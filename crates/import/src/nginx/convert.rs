//! Converter from nginx directives to the rule file.

use std::collections::HashMap;

use super::context::{InheritedDirectives, is_inherited};
use super::directive::Directive;
use super::gateway::GatewaySettings;
use super::limits::{self, RuleInput, Zone};
use super::listen::{CertificateFiles, is_listener_directive};
use super::note::Notes;
use super::routes::{self, fixed_response};
use super::server::ServerBlock;
use super::unsupported::Unsupported;
use super::upstream::Upstreams;
use super::variable::Variables;
use super::yaml;

/// Collected parts of a configuration.
pub(super) struct Converter<'a, 'r> {
    variables: Variables<'a>,
    request_zones: HashMap<&'a str, Zone<'a>>,
    connection_zones: HashMap<&'a str, Zone<'a>>,
    upstreams: Upstreams<'a>,
    gateway: GatewaySettings,
    servers: Vec<(&'a Directive, InheritedDirectives<'a>, CertificateFiles)>,
    /// Directives in effect outside the servers.
    outer: InheritedDirectives<'a>,
    notes: &'r mut Notes,
}

impl<'a, 'r> Converter<'a, 'r> {
    /// Collects all directives outside servers.
    pub(super) fn collect(directives: &'a [Directive], notes: &'r mut Notes) -> Self {
        let mut converter = Self {
            variables: Variables::default(),
            request_zones: HashMap::new(),
            connection_zones: HashMap::new(),
            upstreams: Upstreams::default(),
            gateway: GatewaySettings::default(),
            servers: Vec::new(),
            outer: InheritedDirectives::default(),
            notes,
        };
        converter.block(directives, &InheritedDirectives::default(), &CertificateFiles::default());
        converter
    }

    /// Handles top-level directives or those of `http`: an included file has no enclosing `http` block.
    fn block(&mut self, block: &'a [Directive], outer: &InheritedDirectives<'a>, certificate: &CertificateFiles) {
        let inherited = outer.enter_block(block, self.notes);
        let certificate = certificate.enter_block(block);
        self.outer = inherited.clone();
        for it in block {
            match it.name.as_str() {
                "http" => self.block(it.children(), &inherited, &certificate),
                "geo" | "map" => self.variables.add(it),
                "upstream" => drop(self.upstreams.groups.insert(it.first_arg(), it)),
                "server" => self.servers.push((it, inherited.clone(), certificate.clone())),
                "limit_req_zone" | "limit_conn_zone" => match Zone::read(it) {
                    Ok((name, zone)) if it.name == "limit_req_zone" => drop(self.request_zones.insert(name, zone)),
                    Ok((name, zone)) => drop(self.connection_zones.insert(name, zone)),
                    Err(reason) => self.notes.unsupported(it, reason),
                },
                name if is_inherited(name) || self.gateway.apply(it, self.notes) || is_listener_directive(it) => {}
                name => Unsupported::of(name).add_note(it, self.notes),
            }
        }
    }

    /// Renders the rule file.
    pub(super) fn into_yaml(mut self, name: &str) -> String {
        let servers = self.take_servers();
        let default = servers.iter().position(|server| server.is_default).unwrap_or(0);
        let routes = routes::routes(&servers, default, &mut self.upstreams, self.notes);
        for group in self.upstreams.unused() {
            self.notes.changed(group, "no converted location uses it, so it is omitted");
        }
        let gateway = servers
            .first()
            .map(|server| self.gateway.yaml(&self.upstreams.yaml(), &routes, self.notes, server.directive));
        let sources = RuleInput {
            variables: self.variables,
            request_zones: self.request_zones,
            connection_zones: self.connection_zones,
            servers,
            default,
            outer: self.outer,
        };
        let rules = limits::rules(&sources, self.notes);
        let mut file = yaml::comment(&format!("Generated from {name} by `sluicegate import nginx`.")) + "\n";
        if rules.is_empty() {
            file.push_str("rules: []\n");
        } else {
            file.push_str("rules:\n");
            rules.iter().for_each(|rule| file.push_str(rule));
        }
        file.extend(gateway);
        file
    }

    /// Takes the servers that are converted.
    fn take_servers(&mut self) -> Vec<ServerBlock<'a>> {
        let mut converted: Vec<ServerBlock<'a>> = Vec::new();
        for (directive, outer, certificate) in std::mem::take(&mut self.servers) {
            if let Some(redirect) = redirect_only(directive) {
                let reason = "a server that only redirects to https is not supported, and its port is omitted; \
                           serve the redirect with another program";
                self.notes.unsupported(redirect, reason);
                continue;
            }
            let mut server = ServerBlock::read(directive, &outer, self.notes);
            server.resolve_overlaps(self.notes);
            for it in directive.children() {
                let is_handled =
                    matches!(it.name.as_str(), "server_name" | "location" | "return") || is_inherited(&it.name);
                if !is_handled && !self.gateway.apply(it, self.notes) && !is_listener_directive(it) {
                    Unsupported::of(&it.name).add_note(it, self.notes);
                }
            }
            self.gateway.listeners.add(directive, &certificate, self.notes);
            let known = |name| converted.iter().any(|other| other.names.contains(name));
            let is_new_default = server.is_default && !converted.iter().any(|other| other.is_default);
            if !converted.is_empty() && !is_new_default && server.names.iter().all(known) {
                let reason = "another server has the same hosts, and routes match host and path, not the port; \
                           only the listeners of this server are converted";
                self.notes.unsupported(directive, reason);
                continue;
            }
            converted.push(server);
        }
        converted
    }
}

/// The `return` of a server that only redirects to https, or to a target with nginx variables.
fn redirect_only(server: &Directive) -> Option<&Directive> {
    let plain = !server.children().iter().any(|it| it.name == "listen" && it.args.iter().any(|arg| arg == "ssl"));
    let redirect = server.children().iter().find(|it| it.name == "return")?;
    let to_https = redirect.args.iter().any(|arg| arg.starts_with("https://"));
    (plain && to_https || fixed_response(redirect).is_err()).then_some(redirect)
}
