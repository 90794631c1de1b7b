//! Dependencies between the top-level modules of a crate, and their cycles.
//!
//! The source is followed from `lib.rs` and `main.rs` along its `mod` declarations, without code that exists only in
//! tests or for the documentation. A module depends on another one if it names it in a path: `crate::pool::...`, `super::pool` at the top level,
//! or an item that the crate root re-exports from it. References from the root itself do not count: the root names all
//! modules.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::{Attribute, ImplItem, Item, Meta, UseTree};

/// Dependencies of the top-level modules of a crate: for each pair of modules, the first file with a reference.
#[derive(Debug, Default)]
pub struct ModuleGraph {
    edges: BTreeMap<String, BTreeMap<String, PathBuf>>,
}

/// A cycle: each module with the file in which it names the next one; the last module names the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle(pub Vec<(String, PathBuf)>);

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (module, file) in &self.0 {
            write!(f, "{module} -> ({}) ", file.display())?;
        }
        f.write_str(self.0.first().map_or("", |(module, _)| module))
    }
}

impl ModuleGraph {
    /// Reads the crate whose sources are in this folder.
    pub fn read(src: &Path) -> Result<Self, Box<dyn Error>> {
        let mut graph = Self::default();
        for root in ["lib.rs", "main.rs"].map(|name| src.join(name)) {
            if root.is_file() {
                graph.read_root(src, &root)?;
            }
        }
        Ok(graph)
    }

    fn read_root(&mut self, src: &Path, root: &Path) -> Result<(), Box<dyn Error>> {
        let items = parse(root)?;
        let mut names = RootNames::default();
        names.collect(&items);
        for item in &items {
            if let Item::Mod(module) = item {
                let top = module.ident.to_string();
                let mut reader = ModuleReader { src, names: &names, graph: self, top: top.clone() };
                reader.read_module(item, root, src, 1)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, from: &str, to: &str, file: &Path) {
        if from != to {
            let targets = self.edges.entry(from.to_owned()).or_default();
            targets.entry(to.to_owned()).or_insert_with(|| file.to_owned());
        }
    }

    /// One shortest cycle through each module that is part of any, without repetitions.
    pub fn cycles(&self) -> Vec<Cycle> {
        let mut covered = BTreeSet::new();
        let mut cycles = Vec::new();
        for module in self.edges.keys() {
            if covered.contains(module) {
                continue;
            }
            if let Some(path) = self.shortest_cycle(module) {
                covered.extend(path.iter().cloned());
                let file = |at: usize| self.edges[&path[at]][&path[(at + 1) % path.len()]].clone();
                cycles.push(Cycle((0..path.len()).map(|at| (path[at].clone(), file(at))).collect()));
            }
        }
        cycles
    }

    /// The modules of a shortest cycle through `start`, beginning there.
    fn shortest_cycle(&self, start: &str) -> Option<Vec<String>> {
        let mut previous: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(module) = queue.pop_front() {
            for target in self.edges.get(module).into_iter().flat_map(BTreeMap::keys) {
                if target == start {
                    let mut path = vec![module.to_owned()];
                    let mut at = module;
                    while at != start {
                        at = previous[at];
                        path.push(at.to_owned());
                    }
                    path.reverse();
                    return Some(path);
                }
                if !previous.contains_key(target.as_str()) {
                    previous.insert(target, module);
                    queue.push_back(target);
                }
            }
        }
        None
    }
}

/// Names of the crate root that lead to a top-level module.
#[derive(Default)]
struct RootNames {
    modules: BTreeSet<String>,
    /// Re-exported items and their modules.
    items: BTreeMap<String, String>,
}

impl RootNames {
    fn collect(&mut self, items: &[Item]) {
        self.modules.extend(items.iter().filter_map(|item| match item {
            Item::Mod(module) => Some(module.ident.to_string()),
            _ => None,
        }));
        for item in items {
            if let Item::Use(reexport) = item {
                self.collect_use(&reexport.tree, &mut Vec::new());
            }
        }
    }

    fn collect_use(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.collect_use(&step.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.collect_use(tree, path)),
            UseTree::Name(name) => self.reexport(&name.ident.to_string(), path),
            UseTree::Rename(rename) => self.reexport(&rename.rename.to_string(), path),
            UseTree::Glob(_) => {}
        }
    }

    fn reexport(&mut self, name: &str, path: &[String]) {
        let module = path.iter().find(|step| !["crate", "self"].contains(&step.as_str()));
        if let Some(module) = module.filter(|module| self.modules.contains(*module)) {
            self.items.insert(name.to_owned(), module.clone());
        }
    }

    fn module_of(&self, name: &str) -> Option<&str> {
        self.modules.get(name).or_else(|| self.items.get(name)).map(String::as_str)
    }
}

/// Reads one top-level module and everything in it.
struct ModuleReader<'a> {
    src: &'a Path,
    names: &'a RootNames,
    graph: &'a mut ModuleGraph,
    top: String,
}

impl ModuleReader<'_> {
    /// Reads a module that `file` declares. Its own file, or those of its submodules, are in `folder`; `depth` is its
    /// distance from the root.
    fn read_module(&mut self, item: &Item, file: &Path, folder: &Path, depth: usize) -> Result<(), Box<dyn Error>> {
        let Item::Mod(module) = item else { return Ok(()) };
        let name = module.ident.to_string();
        let below = folder.join(&name);
        if let Some((_, items)) = &module.content {
            return self.read_items(items.clone(), file, &below, depth);
        }
        let flat = folder.join(format!("{name}.rs"));
        let own = if flat.is_file() { flat } else { below.join("mod.rs") };
        let items = parse(&own)?;
        self.read_items(items, &own, &below, depth)
    }

    fn read_items(&mut self, items: Vec<Item>, file: &Path, folder: &Path, depth: usize) -> Result<(), Box<dyn Error>> {
        for item in items.into_iter().filter_map(without_tests) {
            match &item {
                Item::Mod(_) => self.read_module(&item, file, folder, depth + 1)?,
                _ => self.read_tokens(item.into_token_stream(), file, depth),
            }
        }
        Ok(())
    }

    /// Finds paths that begin with `crate::`, or with enough `super::` to reach the root.
    fn read_tokens(&mut self, tokens: TokenStream, file: &Path, depth: usize) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            let root_path = match word(&tokens[at]).as_deref() {
                Some("crate") => path_rest(&tokens, at + 1),
                Some("super") => {
                    let mut rest = path_rest(&tokens, at + 1);
                    let mut levels = 1;
                    while let Some(next) = rest.filter(|next| word(&tokens[*next]).as_deref() == Some("super")) {
                        (levels, at) = (levels + 1, next);
                        rest = path_rest(&tokens, next + 1);
                    }
                    rest.filter(|_| levels >= depth)
                }
                _ => None,
            };
            match (root_path, &tokens[at]) {
                (Some(next), _) => {
                    self.add_root_path(&tokens[next], file);
                    at = next;
                }
                (None, TokenTree::Group(group)) => {
                    self.read_tokens(group.stream(), file, depth);
                    at += 1;
                }
                _ => at += 1,
            }
        }
    }

    /// Adds what follows `crate::`: a name, or a group of names.
    fn add_root_path(&mut self, token: &TokenTree, file: &Path) {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let mut is_first = true;
                for token in group.stream() {
                    if is_first {
                        self.add_root_path(&token, file);
                    }
                    is_first = matches!(&token, TokenTree::Punct(punct) if punct.as_char() == ',');
                }
            }
            token => {
                if let Some(module) = word(token).and_then(|name| self.names.module_of(&name).map(str::to_owned)) {
                    let file = file.strip_prefix(self.src).unwrap_or(file);
                    self.graph.add(&self.top, &module, file);
                }
            }
        }
    }
}

/// The position after `::`, if that is at this position.
fn path_rest(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let is_colon = |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    (is_colon(at) && is_colon(at + 1) && at + 2 < tokens.len()).then_some(at + 2)
}

fn word(token: &TokenTree) -> Option<String> {
    match token {
        TokenTree::Ident(ident) => Some(ident.to_string()),
        _ => None,
    }
}

/// The items of a file, without those of tests.
fn parse(file: &Path) -> Result<Vec<Item>, Box<dyn Error>> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(parsed.items.into_iter().filter_map(without_tests).collect())
}

/// Removes what exists only in tests or for the documentation.
fn without_tests(mut item: Item) -> Option<Item> {
    let attributes = match &item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => return Some(item),
    };
    if attributes.iter().any(is_test_only) {
        return None;
    }
    if let Item::Impl(implementation) = &mut item {
        implementation.items.retain(|item| match item {
            ImplItem::Fn(function) => !function.attrs.iter().any(is_test_only),
            _ => true,
        });
    }
    Some(item)
}

/// True for `#[test]`, and for a `cfg` of tests or of the documentation.
fn is_test_only(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    let is_excluded = |token: &TokenTree| matches!(word(token).as_deref(), Some("test" | "doc" | "doctest"));
    let mut condition = list.tokens.clone().into_iter();
    list.path.is_ident("cfg")
        && match (condition.next(), condition.next()) {
            (Some(all), Some(TokenTree::Group(group))) if word(&all).as_deref() == Some("all") => {
                group.stream().into_iter().any(|token| is_excluded(&token))
            }
            (Some(name), None) => is_excluded(&name),
            _ => false,
        }
}
