// SPDX-License-Identifier: MIT
// wide: marks what is wider than its place, so that the style sheet can show that there is more to the right: "wide", and
// "at-end" where the right edge is reached.
export function mark_wide_places(): void {
  for (const place of document.querySelectorAll<HTMLElement>(".scroll, nav")) {
    const look = (): void => {
      const hidden = place.scrollWidth - place.clientWidth;
      place.classList.toggle("wide", hidden > 1);
      place.classList.toggle("at-end", place.scrollLeft >= hidden - 1);
    };
    place.addEventListener("scroll", look, { passive: true });
    const observer = new ResizeObserver(look);
    observer.observe(place);
    for (const child of place.children) observer.observe(child);
    look();
  }
}
