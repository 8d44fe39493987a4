module github.com/drey-state/drey

go 1.26
