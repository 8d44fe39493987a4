(function () {
  "use strict";
  var first = 25; // rows of a table that show at once

  function value(row, column) {
    var cell = row.cells[column];
    var key = cell.getAttribute("data-sort");
    return key === null ? cell.textContent : key;
  }

  function element(name, text, parent) {
    var e = document.createElement(name);
    e.textContent = text;
    parent.appendChild(e);
    return e;
  }

  document.querySelectorAll("table").forEach(function (table) {
    var body = table.tBodies[0];
    var heads = Array.from(table.tHead.rows[0].cells);
    var all = false;

    function show() {
      Array.from(body.rows).forEach(function (row, i) {
        row.hidden = !all && i >= first;
      });
    }

    function sort(column, down) {
      var numeric = heads[column].classList.contains("number");
      var rows = Array.from(body.rows);
      rows.sort(function (a, b) {
        var x = value(a, column), y = value(b, column);
        var order = numeric ? Number(x) - Number(y) : x.localeCompare(y, "en", { numeric: true });
        return down ? -order : order;
      });
      rows.forEach(function (row) { body.appendChild(row); });
      heads.forEach(function (h, i) {
        if (i === column) {
          h.setAttribute("aria-sort", down ? "descending" : "ascending");
        } else {
          h.removeAttribute("aria-sort");
        }
      });
      select.value = column + (down ? " down" : " up");
      show();
    }

    // On a narrow screen the headers don't show.
    var controls = element("label", "sort by ", table.parentNode);
    controls.className = "controls";
    table.parentNode.insertBefore(controls, table);
    var select = element("select", "", controls);
    element("option", "as listed", select).value = "";
    heads.forEach(function (h, i) {
      element("option", h.textContent + " \u25B2", select).value = i + " up";
      element("option", h.textContent + " \u25BC", select).value = i + " down";
    });
    select.addEventListener("change", function () {
      var choice = select.value.split(" ");
      if (choice.length === 2) {
        sort(Number(choice[0]), choice[1] === "down");
      }
    });

    heads.forEach(function (h, i) {
      var name = h.textContent;
      h.textContent = "";
      var button = element("button", name, h);
      button.type = "button";
      button.addEventListener("click", function () {
        var now = h.getAttribute("aria-sort");
        sort(i, now ? now === "ascending" : h.classList.contains("number"));
      });
    });

    if (body.rows.length > first) {
      var more = element("button", "show all " + body.rows.length, table.parentNode);
      more.type = "button";
      more.className = "more";
      more.addEventListener("click", function () {
        all = !all;
        more.textContent = all ? "show fewer" : "show all " + body.rows.length;
        show();
      });
      show();
    }
  });
})();
