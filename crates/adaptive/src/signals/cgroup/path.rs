//! Cgroup path discovery from `/proc/self/cgroup` and `/proc/self/mountinfo`.
//!
//! The first file names the cgroup in each hierarchy, the second gives mount point and root of each hierarchy.
//! In a container with its own cgroup namespace the cgroup is `/` and the mount shows it; without one, the
//! cgroup is the host path, and the mount shows that path or the full hierarchy.

use std::path::{Component, Path, PathBuf};

/// Cgroup version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::signals) enum Version {
    /// One hierarchy per controller or pair of controllers.
    V1,
    /// One unified hierarchy.
    V2,
}

/// Path of a controller's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::signals) struct CgroupPath {
    /// Version of its hierarchy.
    pub(in crate::signals) version: Version,
    /// Mount point of the hierarchy.
    pub(in crate::signals) mount: PathBuf,
    /// Path of the cgroup below the mount.
    pub(in crate::signals) relative: PathBuf,
}

impl CgroupPath {
    /// Directories of the cgroup and those above it, up to the mount.
    pub(in crate::signals) fn dirs(&self) -> Vec<PathBuf> {
        self.relative.ancestors().map(|below| self.mount.join(below)).collect()
    }
}

/// Finds the cgroup of a controller: in v1 if the controller has its own hierarchy, else in v2.
pub(in crate::signals) fn for_controller(controller: &str, groups: &str, mounts: &str) -> Option<CgroupPath> {
    find(Version::V1, controller, groups, mounts).or_else(|| unified(groups, mounts))
}

/// Finds the cgroup of the process in v2.
pub(in crate::signals) fn unified(groups: &str, mounts: &str) -> Option<CgroupPath> {
    find(Version::V2, "", groups, mounts)
}

fn find(version: Version, controller: &str, groups: &str, mounts: &str) -> Option<CgroupPath> {
    let group = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| parse_mount(version, controller, line))?;
    Some(CgroupPath { version, mount: PathBuf::from(mount), relative: relative_path(group, &root) })
}

/// Returns root and mount point if a line of `mountinfo` is the wanted hierarchy: `31 23 0:28 / /sys/fs/cgroup
/// rw,relatime shared:9 - cgroup2 cgroup2 rw`.
fn parse_mount(version: Version, controller: &str, line: &str) -> Option<(String, String)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut filesystem = filesystem.split(' ');
    let (kind, _, options) = (filesystem.next()?, filesystem.next()?, filesystem.next()?);
    let matches = match version {
        Version::V1 => kind == "cgroup" && options.split(',').any(|option| option == controller),
        Version::V2 => kind == "cgroup2",
    };
    let mut mount = mount.split(' ').skip(3);
    matches.then(|| Some((unescape(mount.next()?), unescape(mount.next()?))))?
}

/// Path of the cgroup below the root of the mount. If the mount shows another part of the hierarchy, the
/// mount itself is used.
fn relative_path(group: &str, root: &str) -> PathBuf {
    let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    // A cgroup outside the namespace is written with `..` and leads out of the mount.
    let normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if below.components().all(|part| normal(&part)) { below.to_owned() } else { PathBuf::new() }
}

/// Unescapes blanks in paths, written as `\040`.
fn unescape(path: &str) -> String {
    let mut rest = path;
    let mut plain = String::with_capacity(path.len());
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|code| u8::from_str_radix(code, 8).ok()).filter(u8::is_ascii);
        plain.push(code.map_or('\\', char::from));
        rest = &rest[at + if code.is_some() { 4 } else { 1 }..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn version_2() {
        let path = for_controller("cpu", "0::/system.slice/shop.service\n", V2).unwrap();
        assert_eq!(path.version, Version::V2);
        let dirs: Vec<PathBuf> =
            ["/sys/fs/cgroup/system.slice/shop.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/"]
                .map(PathBuf::from)
                .into();
        assert_eq!(path.dirs(), dirs);
        // A cgroup outside the namespace, and none at all.
        assert_eq!(for_controller("cpu", "0::/../other\n", V2).unwrap().relative, PathBuf::new());
        assert_eq!(for_controller("cpu", "", V2), None);
        assert_eq!(for_controller("cpu", "0::/\n", ""), None);
    }

    #[test]
    fn version_1_if_the_controller_has_its_own_hierarchy() {
        let groups = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/system.slice/docker.service\n";
        let mounts = "40 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                      41 31 0:31 / /sys/fs/cgroup/mem\\040ory ro master:3 - cgroup cgroup rw,memory\n\
                      42 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n";
        let cpu = for_controller("cpuacct", groups, mounts).unwrap();
        assert_eq!((cpu.version, cpu.relative), (Version::V1, PathBuf::new()));
        let memory = for_controller("memory", groups, mounts).unwrap();
        assert_eq!(memory.dirs()[0], PathBuf::from("/sys/fs/cgroup/mem ory/docker/abc"));
        let cpuset = for_controller("cpuset", groups, mounts).unwrap();
        assert_eq!(cpuset.dirs()[0], PathBuf::from("/sys/fs/cgroup/unified/system.slice/docker.service"));
    }

    #[test]
    fn invalid_escapes_are_kept() {
        for (escaped, expected) in [
            ("/a\\040b", "/a b"),
            ("\\", "\\"),
            ("\\9x", "\\9x"),
            ("\\134040", "\\040"),
            ("\\377", "\\377"),
            ("\\0é", "\\0é"),
        ] {
            assert_eq!(unescape(escaped), expected);
        }
    }
}
