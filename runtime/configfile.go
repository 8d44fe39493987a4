package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// legacyConfigName is the file of Flink up to 1.20 that has a key and a value in each line.
const legacyConfigName = "flink-conf.yaml"

// maxConfig is the largest configuration that is read, and maxKey the longest key, in bytes.
const (
	maxConfig = 1 << 20
	maxKey    = 1 << 10
)

// ReadConfig reads a configuration file of Flink for [FromConfig]: a flink-conf.yaml has a key and a value in each line, and any other
// file is YAML, such as config.yaml, whose maps are flattened with dots between the keys. Of a directory it
// reads the one that Flink 1.20 would (GlobalConfiguration). What Flink passes over with a warning is an error.
func ReadConfig(path string) (map[string]string, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		dir := path
		path = filepath.Join(dir, legacyConfigName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = filepath.Join(dir, "config.yaml")
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		err = fmt.Errorf("more than %d bytes", maxConfig)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	parse := parseYAML
	if filepath.Base(path) == legacyConfigName {
		parse = parseLines
	}
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return c, nil
}

// parseLines reads lines "key: value", the last of a key counts. A # begins a comment, wherever it stands.
func parseLines(data []byte) (map[string]string, error) {
	c := map[string]string{}
	var errs []error
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ": ")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || key == "" || value == "" {
			errs = append(errs, fmt.Errorf("line %d is not of the form \"key: value\"", n)) // without what it says, which may be a secret
			continue
		}
		c[key] = value
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return c, nil
}

func parseYAML(data []byte) (map[string]string, error) {
	c := map[string]string{}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := d.Decode(&doc); err == io.EOF {
		return c, nil
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document")
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return c, nil
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it is no map of keys and values")
	}
	if err := flatten(c, "", doc.Content[0]); err != nil {
		return nil, err
	}
	return c, nil
}

// flatten adds what is below a key.
func flatten(c map[string]string, key string, n *yaml.Node) error {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode {
				return fmt.Errorf("line %d: a key is no text", k.Line)
			}
			full := k.Value
			if key != "" {
				full = key + "." + full
			}
			if len(full) > maxKey {
				return fmt.Errorf("line %d: a key of more than %d bytes", k.Line, maxKey)
			}
			if err := flatten(c, full, n.Content[i+1]); err != nil {
				return err
			}
		}
		return nil
	case yaml.AliasNode:
		return fmt.Errorf("line %d: %s: write out what the alias *%s stands for", n.Line, key, n.Value)
	}
	if _, ok := c[key]; ok {
		return fmt.Errorf("line %d: %s is there twice", n.Line, key)
	}
	if n.Kind == yaml.ScalarNode {
		if n.Tag == "!!null" {
			return fmt.Errorf("line %d: %s has no value", n.Line, key)
		}
		c[key] = n.Value
		if v := strings.ToLower(n.Value); n.Tag == "!!int" && (strings.HasPrefix(v, "0x") || strings.HasPrefix(v, "0o")) {
			if i, err := strconv.ParseUint(v, 0, 64); err == nil {
				c[key] = strconv.FormatUint(i, 10)
			}
		}
		return nil
	}
	var list []string
	for _, e := range n.Content {
		if e.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: %s is a list of more than texts", e.Line, key)
		}
		list = append(list, e.Value)
	}
	c[key] = "[" + strings.Join(list, ", ") + "]"
	return nil
}
