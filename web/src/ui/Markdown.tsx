import { memo } from "react";
import { type Inline, parse } from "../chat/markdown";

function Pieces({ pieces }: { pieces: Inline[] }) {
  return pieces.map((piece, index) => {
    switch (piece.kind) {
      case "text":
        return <span key={index}>{piece.text}</span>;
      case "strong":
        return <strong key={index}>{piece.text}</strong>;
      case "code":
        return <code key={index}>{piece.text}</code>;
      case "link":
        return (
          <a key={index} href={piece.url} target="_blank" rel="noopener noreferrer nofollow">
            {piece.text} <span className="link-host">({piece.host})</span>
          </a>
        );
    }
  });
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return (
    <div className="prose">
      {parse(text).map((block, index) => {
        switch (block.kind) {
          case "heading":
            return (
              <p key={index} className="prose-heading">
                <Pieces pieces={block.content} />
              </p>
            );
          case "code":
            return (
              // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, so the keyboard must reach it
              <pre key={index} tabIndex={0} role="region" aria-label="Preformatted text">
                {block.text}
              </pre>
            );
          case "list": {
            const items = block.items.map((item, at) => (
              <li key={at}>
                <Pieces pieces={item} />
              </li>
            ));
            return block.ordered ? (
              <ol key={index} start={block.start}>
                {items}
              </ol>
            ) : (
              <ul key={index}>{items}</ul>
            );
          }
          case "paragraph":
            return (
              <p key={index}>
                {block.lines.map((line, at) => (
                  <span key={at}>
                    {at > 0 && <br />}
                    <Pieces pieces={line} />
                  </span>
                ))}
              </p>
            );
        }
      })}
    </div>
  );
});
