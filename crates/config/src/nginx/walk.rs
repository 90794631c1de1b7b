//! The walk through a configuration, from its outermost directives to the rule file.

use std::collections::HashMap;

use super::directive::Directive;
use super::force::{Force, is_inherited};
use super::gateway::Gateway;
use super::known::Known;
use super::limits::{self, Sources, Zone};
use super::listen::{Certificate, is_of_listeners};
use super::remark::Remarks;
use super::routes::{self, answer};
use super::site::Server;
use super::upstream::Upstreams;
use super::variable::Variables;
use super::yaml;

/// What was found on the way.
pub(super) struct Walk<'a, 'r> {
    variables: Variables<'a>,
    request_zones: HashMap<&'a str, Zone<'a>>,
    connection_zones: HashMap<&'a str, Zone<'a>>,
    upstreams: Upstreams<'a>,
    gateway: Gateway,
    servers: Vec<(&'a Directive, Force<'a>, Certificate)>,
    /// What is in force around the servers.
    around: Force<'a>,
    remarks: &'r mut Remarks,
}

impl<'a, 'r> Walk<'a, 'r> {
    /// Looks at all directives outside of servers.
    pub(super) fn through(directives: &'a [Directive], remarks: &'r mut Remarks) -> Self {
        let mut walk = Self {
            variables: Variables::default(),
            request_zones: HashMap::new(),
            connection_zones: HashMap::new(),
            upstreams: Upstreams::default(),
            gateway: Gateway::default(),
            servers: Vec::new(),
            around: Force::default(),
            remarks,
        };
        walk.block(directives, &Force::default(), &Certificate::default());
        walk
    }

    /// A file's outermost directives, or those of `http`: a file that others include has no `http` around it.
    fn block(&mut self, block: &'a [Directive], around: &Force<'a>, certificate: &Certificate) {
        let force = around.within(block, self.remarks);
        let certificate = certificate.within(block);
        self.around = force.clone();
        for it in block {
            match it.name.as_str() {
                "http" => self.block(it.inner(), &force, &certificate),
                "geo" | "map" => self.variables.add(it),
                "upstream" => drop(self.upstreams.groups.insert(it.first(), it)),
                "server" => self.servers.push((it, force.clone(), certificate.clone())),
                "limit_req_zone" | "limit_conn_zone" => match Zone::read(it) {
                    Ok((name, zone)) if it.name == "limit_req_zone" => drop(self.request_zones.insert(name, zone)),
                    Ok((name, zone)) => drop(self.connection_zones.insert(name, zone)),
                    Err(why) => self.remarks.not_carried(it, why),
                },
                name if is_inherited(name) || self.gateway.take(it, self.remarks) || is_of_listeners(it) => {}
                name => Known::of(name).remark(it, self.remarks),
            }
        }
    }

    /// The rule file.
    pub(super) fn written(mut self, name: &str) -> String {
        let servers = self.kept_servers();
        let default = servers.iter().position(|server| server.is_default).unwrap_or(0);
        let routes = routes::routes(&servers, default, &mut self.upstreams, self.remarks);
        for group in self.upstreams.unused() {
            self.remarks.changed(group, "no location that is carried over leads to it, so it is left out");
        }
        let gateway = servers
            .first()
            .map(|server| self.gateway.yaml(&self.upstreams.yaml(), &routes, self.remarks, server.directive));
        let sources = Sources {
            variables: self.variables,
            request_zones: self.request_zones,
            connection_zones: self.connection_zones,
            servers,
            default,
            around: self.around,
        };
        let rules = limits::rules(&sources, self.remarks);
        let mut file = yaml::comment(&format!("Made from {name} by `sluicegate import nginx`.")) + "\n";
        if rules.is_empty() {
            file.push_str("rules: []\n");
        } else {
            file.push_str("rules:\n");
            rules.iter().for_each(|rule| file.push_str(rule));
        }
        file.extend(gateway);
        file
    }

    /// The servers that are carried over.
    fn kept_servers(&mut self) -> Vec<Server<'a>> {
        let mut kept: Vec<Server<'a>> = Vec::new();
        for (directive, around, certificate) in std::mem::take(&mut self.servers) {
            if let Some(redirect) = only_redirects(directive) {
                let why = "a port that only leads to https has no route here, and is not listened at; \
                           let another program answer there";
                self.remarks.not_carried(redirect, why);
                continue;
            }
            let mut server = Server::read(directive, &around, self.remarks);
            server.settle(self.remarks);
            for it in directive.inner() {
                let read = matches!(it.name.as_str(), "server_name" | "location" | "return") || is_inherited(&it.name);
                if !read && !self.gateway.take(it, self.remarks) && !is_of_listeners(it) {
                    Known::of(&it.name).remark(it, self.remarks);
                }
            }
            self.gateway.listeners.add(directive, &certificate, self.remarks);
            let known = |name| kept.iter().any(|other| other.names.contains(name));
            let is_new_default = server.is_default && !kept.iter().any(|other| other.is_default);
            if !kept.is_empty() && !is_new_default && server.names.iter().all(known) {
                let why = "another server has its hosts, and routes go by host and path, not by port; \
                           of this one only the listeners are kept";
                self.remarks.not_carried(directive, why);
                continue;
            }
            kept.push(server);
        }
        kept
    }
}

/// The `return` of a server that does nothing but lead its clients to https, or to where only nginx knows.
fn only_redirects(server: &Directive) -> Option<&Directive> {
    let plain = !server.inner().iter().any(|it| it.name == "listen" && it.args.iter().any(|arg| arg == "ssl"));
    let redirect = server.inner().iter().find(|it| it.name == "return")?;
    let leads = redirect.args.iter().any(|arg| arg.starts_with("https://"));
    (plain && leads || answer(redirect).is_err()).then_some(redirect)
}
